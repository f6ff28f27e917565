//! From place to place through a tool's schema; each that a call can carry a value in is an argument.

use std::{collections::BTreeMap, mem};

use gate::json::Value;

use super::{
    Argument, Choice, Named, Presence, Types,
    facts::Facts,
    obligation::Kind,
    place::{Child, Place, Source, When},
    shared::Shared,
};
use crate::{
    input::{At, Fault, limits},
    pointer,
};

/// What is known on the way.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    /// The schema of the tool.
    pub(super) root: &'a Value,
    /// Where that stands in the file.
    pub(super) base: &'a str,
    pub(super) shared: Shared,
    /// What is not modelled, by its place below the root.
    pub(super) unmodelled: BTreeMap<String, &'a Value>,
    arguments: Vec<Argument>,
    count: usize,
    /// The schemas of the places around this one.
    pub(super) around: Vec<&'a Value>,
    /// What is left of [`limits::STEPS`].
    steps: usize,
}

/// Where an argument stands, and what it is called.
#[derive(Debug)]
struct Spot {
    path: String,
    name: String,
    named: Named,
    presence: Presence,
}

impl<'a> Walk<'a> {
    pub(super) fn new(root: &'a Value, base: &'a str, steps: usize) -> Self {
        Self {
            root,
            base,
            shared: Shared::default(),
            unmodelled: BTreeMap::new(),
            arguments: Vec::new(),
            count: 0,
            around: Vec::new(),
            steps,
        }
    }

    /// Spends some of what may be looked at.
    pub(super) fn step(&mut self, count: usize, at: &str) -> Result<(), At> {
        match self.steps.checked_sub(count) {
            Some(left) => {
                self.steps = left;
                Ok(())
            }
            None => Err((at.to_owned(), Fault::Steps)),
        }
    }

    /// What is left.
    pub(super) const fn steps(&self) -> usize {
        self.steps
    }

    /// The root's own place, and every argument.
    pub(super) fn arguments(&mut self) -> Result<(Place<'a>, Facts, Vec<Argument>), At> {
        let mut place = Place::default();
        place.open.push(self.root);
        let facts = self.gather(self.root, self.base, When::Always, 0, &mut place)?;
        place.open.pop();
        self.enter(&mut place, "", self.base, 0)?;
        let mut arguments = mem::take(&mut self.arguments);
        arguments.sort_by(|a, b| a.path.cmp(&b.path));
        Ok((place, facts, arguments))
    }

    /// Goes into what stands inside `place`. Answers the types of an array's items, and of their items behind.
    fn enter(
        &mut self,
        place: &mut Place<'a>,
        path: &str,
        at: &str,
        depth: usize,
    ) -> Result<Vec<Types>, At> {
        let before = self.around.len();
        self.around.extend(place.schemas.iter().copied());
        let required = mem::take(&mut place.required);
        for name in required.keys() {
            let child = Child::Member((*name).to_owned());
            place.children.entry(child).or_default();
        }
        let children = mem::take(&mut place.children);
        let mut items = Vec::new();
        for (child, sources) in children {
            let spot = Spot::of(&child, path, &required);
            if matches!(child, Child::Item) {
                items = self.items(&sources, &spot.path, depth, place)?;
            } else {
                self.argument(spot, &sources, at, depth)?;
            }
        }
        self.around.truncate(before);
        Ok(items)
    }

    fn argument(
        &mut self,
        spot: Spot,
        sources: &[Source<'a>],
        parent: &str,
        depth: usize,
    ) -> Result<(), At> {
        let first = sources.first();
        let at = first.map_or_else(|| parent.to_owned(), |source| source.pointer.clone());
        self.count = self.count.saturating_add(1);
        if self.count > limits::ARGUMENTS {
            return Err((at, Fault::Arguments));
        }
        self.step(spot.path.len() / 64, &at)?;
        let mut place = Place::default();
        if sources.is_empty() {
            place.oblige(Kind::Undeclared, parent, &spot.name);
        }
        let mut facts = self.place(sources, &at, &mut place)?;
        let items = self.descend(&mut place, &spot.path, &at, depth)?;
        facts.bounds.formats = mem::take(&mut place.formats);
        self.arguments.push(Argument {
            path: spot.path,
            name: spot.name,
            named: spot.named,
            pointer: at,
            presence: spot.presence,
            types: facts.types,
            items,
            choice: facts.choice.map(Choice),
            bounds: facts.bounds,
            words: place.words,
            obligations: place.obligations.into_iter().collect(),
            sha256: self.shared.digest(&place.schemas),
        });
        Ok(())
    }

    /// The items of an array: no argument of their own, since who chooses the array chooses them.
    fn items(
        &mut self,
        sources: &[Source<'a>],
        path: &str,
        depth: usize,
        around: &mut Place<'a>,
    ) -> Result<Vec<Types>, At> {
        let first = sources.first();
        let at = first.map_or_else(String::new, |source| source.pointer.clone());
        let mut place = Place::default();
        let facts = self.place(sources, &at, &mut place)?;
        let mut types = vec![facts.types];
        types.extend(self.descend(&mut place, path, &at, depth)?);
        around.obligations.append(&mut place.obligations);
        around.formats.append(&mut place.formats);
        around.words.carriage.append(&mut place.words.carriage);
        around.words.samples.append(&mut place.words.samples);
        Ok(types)
    }

    /// Everything that is said of one place.
    fn place(
        &mut self,
        sources: &[Source<'a>],
        at: &str,
        place: &mut Place<'a>,
    ) -> Result<Facts, At> {
        let mut always = Facts::any();
        let mut sometimes = Vec::new();
        for source in sources {
            let Source {
                schema,
                pointer,
                when,
            } = source;
            place.open.push(schema);
            let facts = self.gather(schema, pointer, *when, 0, place)?;
            place.open.pop();
            match when {
                When::Always => always = always.and(facts),
                When::Sometimes => sometimes.push(facts),
            }
        }
        // What holds sometimes narrows only where nothing holds always.
        let facts = if sometimes.len() == sources.len() {
            Facts::one_of(sometimes)
        } else {
            always
        };
        if facts.types == Types::NONE {
            place.oblige(Kind::Contradiction, at, "");
        } else if facts.types == Types::ANY {
            place.oblige(Kind::Untyped, at, "");
        } else if facts.types.count() > 1 {
            place.oblige(Kind::UnionType, at, "");
        }
        Ok(facts)
    }

    /// Goes into `place`.
    fn descend(
        &mut self,
        place: &mut Place<'a>,
        path: &str,
        at: &str,
        depth: usize,
    ) -> Result<Vec<Types>, At> {
        let depth = depth.saturating_add(1);
        if depth > limits::DEPTH {
            return Err((at.to_owned(), Fault::Depth));
        }
        let members = |child: &Child| matches!(child, Child::Member(_) | Child::Named);
        if place.children.keys().any(members) || !place.required.is_empty() {
            place.oblige(Kind::Nested, at, "");
            if !place.closed {
                place.oblige(Kind::OpenObject, at, "");
            }
        }
        self.enter(place, path, at, depth)
    }
}

impl Spot {
    fn of(child: &Child, path: &str, required: &BTreeMap<&str, When>) -> Self {
        let (step, name, named) = match child {
            Child::Item | Child::Named => ("*".to_owned(), "*".to_owned(), Named::ByCaller),
            // No wildcard: `~*` is no escape that a pointer has.
            Child::Member(name) if name == "*" => ("~*".to_owned(), name.clone(), Named::BySchema),
            Child::Member(name) => (name.clone(), name.clone(), Named::BySchema),
            Child::Position(index) => (index.to_string(), index.to_string(), Named::ByPosition),
        };
        let presence = match required.get(name.as_str()) {
            Some(When::Always) if named == Named::BySchema => Presence::Required,
            Some(_) | None => Presence::Optional,
        };
        let path = if step == "~*" {
            format!("{path}/{step}")
        } else {
            pointer::join(path, &step)
        };
        Self {
            path,
            name,
            named,
            presence,
        }
    }
}
