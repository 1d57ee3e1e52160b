//! One page of what was measured: verdict, pictures, parameters, versions, and the numbers themselves. It needs nothing but a browser.
//!
//! ```text
//!  result ─► Report: verdict, facts, pictures (SVG), tables, raw JSON ─► one HTML file, everything in it
//!            while it is measured: the same, loaded again every second
//! ```

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The judgement of a measured value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueVerdict {
    /// It is.
    Passes(String),
    /// It is not, or it is not known, and why.
    Fails(String),
    /// Nothing was required: what was found.
    Found(String),
    /// It is still measured.
    Measuring(String),
}

/// Rows below names of columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Names of its columns.
    pub columns: Vec<&'static str>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
}

/// A page.
#[derive(Clone, Debug)]
pub struct Report {
    /// The name of the measurement.
    pub title: String,
    /// The judgement of its result.
    pub verdict: ValueVerdict,
    /// Parameters and results, name and value.
    pub facts: Vec<(String, String)>,
    /// Pictures, each with what it shows, as SVG.
    pub pictures: Vec<(String, String)>,
    /// Tables.
    pub tables: Vec<Table>,
    /// All results, as JSON.
    pub raw: String,
    /// Name of the file in which the raw data are saved.
    pub raw_name: &'static str,
}

const STYLE: &str = "
:root { color-scheme: light }
body { font: 15px/1.5 system-ui, sans-serif; color: #1c2733; max-width: 60rem; margin: 2.5rem auto; padding: 0 1.5rem }
h1 { font-size: 1.5rem; margin: 0 0 .8rem } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem }
.verdict { padding: .8rem 1rem; border-left: 6px solid; border-radius: 3px; margin: 1rem 0; white-space: pre-line }
.passes { background: #e8f4ec; border-color: #2b7a4b } .fails { background: #fbeaea; border-color: #b3261e }
.found, .measuring { background: #eaf1f7; border-color: #1f5f8f }
.verdict b { margin-right: .5rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums } td, th { padding: .18rem 1.1rem .18rem 0; text-align: left; vertical-align: top }
th { font-weight: 600 } thead th { border-bottom: 1px solid #c8d1d8 } tbody tr + tr td { border-top: 1px solid #eef1f4 }
.facts td:first-child { color: #5b6b78; white-space: nowrap }
figure { margin: 1rem 0 } figure svg { max-width: 100%; height: auto } figcaption { color: #5b6b78; font-size: .9rem }
pre { font-size: .75rem; max-height: 24rem; overflow: auto; background: #f4f6f8; padding: .8rem }
footer { color: #5b6b78; font-size: .85rem; margin-top: 2.5rem; border-top: 1px solid #d8dee3; padding-top: .6rem }
";

impl Report {
    /// The page. `made_by` says with what and where it was measured.
    pub fn html(&self, made_by: &[(String, String)]) -> String {
        let (class, word, said) = match &self.verdict {
            ValueVerdict::Passes(said) => ("passes", "<b>passes</b>", said),
            ValueVerdict::Fails(said) => ("fails", "<b>does not pass</b>", said),
            ValueVerdict::Found(said) => ("found", "", said),
            ValueVerdict::Measuring(said) => ("measuring", "<b>measuring …</b>", said),
        };
        let refresh = match self.verdict {
            ValueVerdict::Measuring(_) => "<meta http-equiv=\"refresh\" content=\"1\">",
            _ => "",
        };
        let title = escaped(&self.title);
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">{refresh}<title>{title}</title><style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n<p class=\"verdict {class}\">{word}{}</p>\n",
            escaped(said)
        );
        for (caption, svg) in &self.pictures {
            let _ = writeln!(page, "<figure>{svg}<figcaption>{}</figcaption></figure>", escaped(caption));
        }
        page += &facts("Result and parameters", &self.facts);
        self.tables.iter().for_each(|table| page += &table.html());
        page += &facts("Measured with", made_by);
        let _ = writeln!(
            page,
            "<h2>Raw data</h2>\n<p><a download=\"{}\" href=\"data:application/json;charset=utf-8,{}\">Save as {}</a></p>\n<details><summary>Show</summary><pre>{}</pre></details>",
            self.raw_name,
            percent_encoded(&self.raw),
            self.raw_name,
            escaped(&self.raw)
        );
        page + "</body></html>\n"
    }

    /// Whether a page can be written to this file, as far as is known before it is.
    ///
    /// # Errors
    /// When its folder takes no file, or a folder has its name.
    pub fn check_place(file: &Path) -> std::io::Result<()> {
        if file.is_dir() {
            return Err(std::io::ErrorKind::IsADirectory.into());
        }
        let part = part_of(file);
        std::fs::File::create(&part)?;
        std::fs::remove_file(part)
    }

    /// Writes the page, so that who reads it meanwhile sees the one before or this one.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, file: &Path, made_by: &[(String, String)]) -> std::io::Result<()> {
        let part = part_of(file);
        let mut written = std::fs::File::create(&part)?;
        written.write_all(self.html(made_by).as_bytes())?;
        std::fs::rename(&part, file)
    }
}

/// Where a page is written before it takes its name.
fn part_of(file: &Path) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    file.with_file_name(name)
}

impl Table {
    fn html(&self) -> String {
        let mut text = format!("<h2>{}</h2>\n<table><thead><tr>", escaped(&self.title));
        self.columns.iter().for_each(|name| text += &format!("<th>{}</th>", escaped(name)));
        text += "</tr></thead><tbody>\n";
        for row in &self.rows {
            let cells: String = row.iter().map(|cell| format!("<td>{}</td>", escaped(cell))).collect();
            let _ = writeln!(text, "<tr>{cells}</tr>");
        }
        text + "</tbody></table>\n"
    }
}

fn facts(title: &str, facts: &[(String, String)]) -> String {
    let row = |(name, value): &(String, String)| {
        format!("<tr><td>{}</td><td>{}</td></tr>\n", escaped(name), escaped(value))
    };
    let rows: String = facts.iter().map(row).collect();
    format!("<h2>{}</h2>\n<table class=\"facts\"><tbody>\n{rows}</tbody></table>\n", escaped(title))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Encodes a text for a data address, which may hold letters, digits and a few signs; everything else becomes %XX (RFC 3986).
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() * 3 / 2);
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b',' | b':' => {
                encoded.push(char::from(byte));
            }
            _ => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(verdict: ValueVerdict) -> Report {
        Report {
            title: "Buffer <of> a switch".to_owned(),
            verdict,
            facts: vec![("depth".to_owned(), "8 MB & more".to_owned())],
            pictures: vec![("the map".to_owned(), "<svg></svg>".to_owned())],
            tables: vec![Table {
                title: "columns".to_owned(),
                columns: vec!["a"],
                rows: vec![vec!["<1>".to_owned()]],
            }],
            raw: "{\"a b\": \"</script>\"}".to_owned(),
            raw_name: "map.json",
        }
    }

    #[test]
    fn a_page_holds_everything_and_nothing_of_it_is_read_as_markup() {
        let made_by = [("version".to_owned(), "0.1".to_owned())];
        let page = report(ValueVerdict::Fails("too <small>".to_owned())).html(&made_by);
        for held in [
            "Buffer &lt;of&gt; a switch",
            "does not pass</b>too &lt;small&gt;",
            "<svg></svg>",
            "8 MB &amp; more",
            "&lt;1&gt;",
            "data:application/json;charset=utf-8,%7B%22a%20b%22:",
            "&lt;/script&gt;",
        ] {
            assert!(page.contains(held), "{held} in {page}");
        }
        assert!(
            !page.contains("refresh") && !page.contains("http://") && !page.contains("<script"),
            "{page}"
        );
        assert!(report(ValueVerdict::Measuring(String::new())).html(&made_by).contains("refresh"));
    }

    #[test]
    fn a_page_is_replaced_as_a_whole_and_leaves_no_part_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("map.html");
        for verdict in [ValueVerdict::Measuring("1".to_owned()), ValueVerdict::Passes("2".to_owned())] {
            report(verdict).write(&file, &[]).expect("written");
        }
        assert!(std::fs::read_to_string(&file).expect("there").contains("passes</b>2"));
        assert_eq!(std::fs::read_dir(folder.path()).expect("there").count(), 1);
    }
}
