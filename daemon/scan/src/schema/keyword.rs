//! Which keywords of JSON Schema (2020-12, and what older drafts wrote) mean something here.

/// Keywords whose meaning is modelled, or flagged where it stands.
const MODELLED: [&str; 48] = [
    "$defs",
    "$dynamicRef",
    "$recursiveRef",
    "$ref",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "definitions",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "if",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "required",
    "then",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
    "contentEncoding",
    "contentMediaType",
    "x-mcp-header",
];

/// Keywords that hold of no value: words for people, and what names the schema.
const ANNOTATIONS: [&str; 11] = [
    "$comment",
    "$schema",
    "default",
    "deprecated",
    "description",
    "example",
    "examples",
    "readOnly",
    "title",
    "writeOnly",
    "$id",
];

/// Bounds that are numbers, and which of two is the tighter.
pub(super) const NUMBERS: [(&str, Tighter, Takes); 13] = [
    ("exclusiveMaximum", Tighter::Less, Takes::Any),
    ("exclusiveMinimum", Tighter::Greater, Takes::Any),
    ("maxContains", Tighter::Less, Takes::Count),
    ("maxItems", Tighter::Less, Takes::Count),
    ("maxLength", Tighter::Less, Takes::Count),
    ("maxProperties", Tighter::Less, Takes::Count),
    ("maximum", Tighter::Less, Takes::Any),
    ("minContains", Tighter::Greater, Takes::Count),
    ("minItems", Tighter::Greater, Takes::Count),
    ("minLength", Tighter::Greater, Takes::Count),
    ("minProperties", Tighter::Greater, Takes::Count),
    ("minimum", Tighter::Greater, Takes::Any),
    ("multipleOf", Tighter::Greater, Takes::Any),
];

/// Keywords that put a schema together of others in a way that is flagged where they stand.
pub(super) const CONDITIONS: [&str; 7] = [
    "contains",
    "dependentRequired",
    "if",
    "else",
    "not",
    "propertyNames",
    "then",
];

/// Which of two bounds is the tighter.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tighter {
    Greater,
    Less,
}

/// What a bound may be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Takes {
    Any,
    /// An integer from 0.
    Count,
}

/// Whether a keyword means something here, or nothing for any value.
pub(super) fn is_known(keyword: &str) -> bool {
    MODELLED.contains(&keyword) || ANNOTATIONS.contains(&keyword)
}
