//! HTML that no text can break out of: tags and names are literals, everything else is escaped.

/// A piece of a page.
#[derive(Clone, Debug, Default)]
pub struct Html(String);

/// Attributes: literal names, any values.
pub type Attributes<'a> = &'a [(&'static str, &'a str)];

impl Html {
    /// Text.
    pub fn text(&mut self, text: &str) -> &mut Self {
        for character in text.chars() {
            match character {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                other => self.0.push(other),
            }
        }
        self
    }

    /// An element with what `inner` writes in it.
    pub fn element(
        &mut self,
        tag: &'static str,
        attributes: Attributes<'_>,
        inner: impl FnOnce(&mut Self),
    ) -> &mut Self {
        self.open(tag, attributes);
        inner(self);
        self.0.push_str("</");
        self.0.push_str(tag);
        self.0.push('>');
        self
    }

    /// An element with this text.
    pub fn with(&mut self, tag: &'static str, attributes: Attributes<'_>, text: &str) -> &mut Self {
        self.element(tag, attributes, |it| {
            it.text(text);
        })
    }

    /// An element that has no end.
    pub fn void(&mut self, tag: &'static str, attributes: Attributes<'_>) -> &mut Self {
        self.open(tag, attributes);
        self
    }

    fn open(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        self.0.push('<');
        self.0.push_str(tag);
        for (name, value) in attributes {
            self.0.push(' ');
            self.0.push_str(name);
            self.0.push_str("=\"");
            self.text(value);
            self.0.push('"');
        }
        self.0.push('>');
    }

    /// A whole page.
    pub fn page(title: &str, body: impl FnOnce(&mut Self)) -> String {
        let mut page = Self("<!DOCTYPE html>".into());
        page.element("html", &[("lang", "en")], |html| {
            html.element("head", &[], |head| {
                head.void("meta", &[("charset", "utf-8")])
                    .void(
                        "meta",
                        &[
                            ("name", "viewport"),
                            ("content", "width=device-width, initial-scale=1"),
                        ],
                    )
                    .with("title", &[], title)
                    .void("link", &[("rel", "stylesheet"), ("href", "/style.css")]);
            })
            .element("body", &[], |it| {
                it.element("main", &[], body);
            });
        });
        page.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_values_stay_what_they_are() {
        let hostile = "</p><script>alert('1')</script>\"&";
        let page = Html::page(hostile, |body| {
            body.with("p", &[("title", hostile)], hostile);
        });
        assert!(!page.contains("<script"), "{page}");
        assert_eq!(page.matches("</p>").count(), 1);
        assert_eq!(page.matches("&lt;script&gt;").count(), 3);
        assert!(page.contains("title=\"&lt;/p&gt;"), "{page}");
        assert!(page.contains("&quot;&amp;\""), "{page}");
    }
}
