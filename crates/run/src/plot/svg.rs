//! Shapes and labels as SVG text. Knows no physics.

use std::fmt::Write;

/// The style of a text.
#[derive(Clone, Copy)]
pub struct Type {
    /// Height in pixels.
    pub size: f64,
    /// Colour.
    pub fill: &'static str,
    /// `start`, `middle` or `end`.
    pub anchor: &'static str,
    /// 400 is regular, 600 is half bold.
    pub weight: u32,
}

impl Type {
    /// Regular text from its left end.
    pub const fn new(size: f64, fill: &'static str) -> Type {
        Type { size, fill, anchor: "start", weight: 400 }
    }

    /// Centred on its place.
    pub const fn middle(self) -> Type {
        Type { anchor: "middle", ..self }
    }

    /// Ending at its place.
    pub const fn end(self) -> Type {
        Type { anchor: "end", ..self }
    }

    /// Half bold.
    pub const fn strong(self) -> Type {
        Type { weight: 600, ..self }
    }
}

/// A rectangle on the page, in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Area {
    /// Left edge.
    pub x: f64,
    /// Upper edge.
    pub y: f64,
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
}

impl Area {
    /// Right edge.
    pub fn right(self) -> f64 {
        self.x + self.width
    }

    /// Lower edge.
    pub fn bottom(self) -> f64 {
        self.y + self.height
    }
}

/// A picture being written.
pub struct Svg {
    text: String,
    height: f64,
    width: f64,
}

// Writing into a String cannot fail, so the results of `write!` below are of no interest.
impl Svg {
    /// An empty page.
    pub fn new(width: f64, height: f64) -> Svg {
        Svg { text: String::new(), width, height }
    }

    /// A filled rectangle, with a border when `stroke` is not `none`.
    pub fn rectangle(&mut self, area: Area, fill: &str, stroke: &str) {
        let Area { x, y, width, height } = area;
        let _ = writeln!(
            self.text,
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{fill}" stroke="{stroke}"/>"#
        );
    }

    /// Draws a filled rectangle that shows `text` when pointed at.
    pub fn mark(&mut self, area: Area, fill: &str, opacity: f64, text: &str) {
        let Area { x, y, width, height } = area;
        let _ = writeln!(
            self.text,
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{fill}" fill-opacity="{opacity:.2}"><title>{}</title></rect>"#,
            escaped(text)
        );
    }

    /// A thin straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ = writeln!(
            self.text,
            r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" stroke="{stroke}"/>"#
        );
    }

    /// An outline given as path commands.
    pub fn path(&mut self, commands: &str, fill: &str, fill_opacity: f64, stroke: &str, stroke_width: f64) {
        let _ = writeln!(
            self.text,
            r#"<path d="{commands}" fill="{fill}" fill-opacity="{fill_opacity}" stroke="{stroke}" stroke-width="{stroke_width}" stroke-linejoin="round"/>"#
        );
    }

    /// Text at a position; `y` is the base line.
    pub fn label(&mut self, x: f64, y: f64, style: Type, text: &str) {
        self.label_turned(x, y, 0.0, style, text);
    }

    /// Text turned by `degrees` about its position.
    pub fn label_turned(&mut self, x: f64, y: f64, degrees: f64, style: Type, text: &str) {
        let Type { size, fill, anchor, weight } = style;
        let turn = if degrees == 0.0 {
            String::new()
        } else {
            format!(r#" transform="rotate({degrees} {x:.1} {y:.1})""#)
        };
        let _ = writeln!(
            self.text,
            r#"<text x="{x:.1}" y="{y:.1}" font-size="{size}" fill="{fill}" text-anchor="{anchor}" font-weight="{weight}"{turn}>{}</text>"#,
            escaped(text)
        );
    }

    /// An image stretched over `area`, its pixels kept sharp.
    pub fn image(&mut self, area: Area, address: &str) {
        let Area { x, y, width, height } = area;
        let _ = writeln!(
            self.text,
            r#"<image x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" preserveAspectRatio="none" style="image-rendering:pixelated" href="{address}"/>"#
        );
    }

    /// The whole document. `description` is for those who do not see it.
    pub fn finish(self, title: &str, description: &str) -> String {
        let Svg { text, width, height } = self;
        format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" font-family="'Inter','Helvetica Neue',Helvetica,Arial,'DejaVu Sans',sans-serif">
<title>{}</title>
<desc>{}</desc>
{text}</svg>
"#,
            escaped(title),
            escaped(description)
        )
    }
}

/// Text that means nothing to XML. Characters that XML 1.0 forbids become a question mark.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\t' | '\n' => safe.push(' '),
            control if control < ' ' || matches!(control, '\u{fffe}' | '\u{ffff}') => safe.push('?'),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_cannot_break_the_document() {
        let mut svg = Svg::new(10.0, 10.0);
        svg.label(0.0, 0.0, Type::new(9.0, "#000"), "</svg><script> & \u{1}");
        let text = svg.finish("a < b", "\"quoted\"");
        assert!(text.contains("&lt;/svg&gt;&lt;script&gt; &amp; ?"));
        assert_eq!(text.matches("</svg>").count(), 1);
    }
}
