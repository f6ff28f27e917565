//! The shape of a type and of an argument.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};

use serde::Deserialize;

use crate::{
    id::{ArgumentName, CatalogueName, OwnedName, ValueName},
    json::Value,
    policy::{Answer, Links, OriginClass, Pattern, Role},
};

/// A type and its bounds.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct Typed {
    pub(in crate::policy) items: Option<Box<Typed>>,
    #[serde(rename = "type")]
    pub(in crate::policy) kind: Option<KindName>,
    pub(in crate::policy) max: Option<Value>,
    pub(in crate::policy) max_items: Option<u32>,
    pub(in crate::policy) max_length: Option<u32>,
    pub(in crate::policy) members: Option<BTreeMap<ArgumentName, Typed>>,
    pub(in crate::policy) min: Option<Value>,
    pub(in crate::policy) min_items: Option<u32>,
    pub(in crate::policy) min_length: Option<u32>,
    pub(in crate::policy) one_of: Option<Vec<String>>,
    /// Only for a member of an object.
    pub(in crate::policy) optional: Option<bool>,
    pub(in crate::policy) pattern: Option<Pattern>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::policy) enum KindName {
    Boolean,
    Email,
    Enum,
    Integer,
    List,
    Number,
    Object,
    String,
}

/// An argument. The keys of [`Typed`] stand here again: a flattened struct would take unknown keys.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::policy) struct ArgumentTable {
    #[serde(default)]
    pub(in crate::policy) anchor: bool,
    pub(in crate::policy) authority: AuthorityName,
    pub(in crate::policy) catalogue: Option<CatalogueName>,
    #[serde(default)]
    pub(in crate::policy) description: String,
    pub(in crate::policy) links: Option<Links>,
    #[serde(default)]
    pub(in crate::policy) member: bool,
    pub(in crate::policy) on_origin: Option<Answer>,
    #[serde(default)]
    pub(in crate::policy) optional: bool,
    pub(in crate::policy) origins: Option<BTreeSet<OriginClass>>,
    pub(in crate::policy) role: Option<Role>,
    pub(in crate::policy) set: Option<OwnedName>,
    pub(in crate::policy) sink: Option<bool>,
    pub(in crate::policy) value: Option<ValueName>,

    pub(in crate::policy) items: Option<Box<Typed>>,
    #[serde(rename = "type")]
    pub(in crate::policy) kind: Option<KindName>,
    pub(in crate::policy) max: Option<Value>,
    pub(in crate::policy) max_items: Option<u32>,
    pub(in crate::policy) max_length: Option<u32>,
    pub(in crate::policy) members: Option<BTreeMap<ArgumentName, Typed>>,
    pub(in crate::policy) min: Option<Value>,
    pub(in crate::policy) min_items: Option<u32>,
    pub(in crate::policy) min_length: Option<u32>,
    pub(in crate::policy) one_of: Option<Vec<String>>,
    pub(in crate::policy) pattern: Option<Pattern>,
}

#[derive(Clone, Copy, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(in crate::policy) enum AuthorityName {
    Agent,
    Catalogue,
    Injected,
    Owned,
    Payload,
    Verified,
}

impl AuthorityName {
    pub(in crate::policy) const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Catalogue => "catalogue",
            Self::Injected => "injected",
            Self::Owned => "owned",
            Self::Payload => "payload",
            Self::Verified => "verified",
        }
    }
}
