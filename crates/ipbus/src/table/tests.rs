use std::path::Path;

use super::*;

/// Files in a temporary folder.
struct Files(tempfile::TempDir);

impl Files {
    fn new(files: &[(&str, &str)]) -> Files {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        }
        Files(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn table(&self, name: &str) -> Result<Table, TableError> {
        Table::open(&self.path().join(name))
    }
}

fn table(text: &str) -> Result<Table, TableError> {
    Files::new(&[("board.xml", text)]).table("board.xml")
}

const BOARD: &str = r#"<node id="TOP">
  <node id="CONTROL" address="0x10" permission="rw" description="what is on">
    <node id="ENABLE" mask="0x1"/>
    <node id="GAIN" mask="0xFF0" permission="r"/>
  </node>
  <node id="MEMORY" address="0x1000" mode="incremental" size="0x400" parameters="width=32;kind=ram"/>
  <node id="QUEUE" address="32" mode="port" permission="read" tags="slow"/>
  <node id="LINKS" address="0x2000" fwinfo="endpoint;width=0x10">
    <node id="L1" address="0x100" module="file://link.xml" tags="outside" parameters="lane=1"/>
    <node id="L0" address="0x0" module="file://link.xml"/>
  </node>
</node>"#;
const LINK: &str = r#"<node address="0x4" tags="inside" parameters="lane=0;rate=10" class="Link">
  <node id="STATUS" address="0x1" permission="r"/>
</node>"#;

#[test]
fn a_table_is_read_as_the_original_reads_it() {
    let files = Files::new(&[("board.xml", BOARD), ("link.xml", LINK)]);
    let table = files.table("board.xml").expect("a table");
    let names: Vec<&str> = table.nodes().iter().map(|node| node.name.as_str()).collect();
    let expected = [
        "CONTROL",
        "CONTROL.ENABLE",
        "CONTROL.GAIN",
        "QUEUE",
        "MEMORY",
        "LINKS",
        "LINKS.L0",
        "LINKS.L0.STATUS",
        "LINKS.L1",
        "LINKS.L1.STATUS",
    ];
    assert_eq!(names, expected, "by their addresses within each level");
    let node = |name: &str| table.node(name).expect(name);
    assert_eq!((node("CONTROL.GAIN").address, node("CONTROL.GAIN").mask), (0x10, 0xFF0));
    assert_eq!((node("CONTROL").mode, node("LINKS").mode), (Mode::Single, Mode::Hierarchical));
    assert_eq!((node("CONTROL.GAIN").value_of(0x1230), node("CONTROL.GAIN").bits_of(0x123)), (0x23, None));
    assert_eq!(node("CONTROL.GAIN").bits_of(0xAB), Some(0xAB0));
    assert_eq!(
        (node("MEMORY").mode, node("MEMORY").parameters["kind"].as_str()),
        (Mode::Incremental { size: 0x400 }, "ram")
    );
    assert_eq!((node("QUEUE").address, node("QUEUE").mode), (32, Mode::NonIncremental { size: None }));
    assert!(!node("QUEUE").permission.writes() && node("QUEUE").permission.reads());
    assert_eq!(node("LINKS.L1.STATUS").address, 0x2105, "the sum of all offsets");
    let link = node("LINKS.L1");
    assert_eq!((link.tags.as_str(), link.class.as_str()), ("inside[outside]", "Link"));
    assert_eq!((link.parameters["lane"].as_str(), link.parameters["rate"].as_str()), ("1", "10"));
    let (kind, keys) = node("LINKS").firmware.clone().expect("fwinfo");
    assert_eq!((kind.as_str(), keys["width"].as_str()), ("endpoint", "0x10"));
    assert_eq!((link.line, node("CONTROL").line), (1, 2));
    assert_eq!(table.overlaps(), []);
}

#[test]
fn nodes_are_found_by_pattern_and_expression_and_similar_names_are_suggested() {
    let files = Files::new(&[("board.xml", BOARD), ("link.xml", LINK)]);
    let table = files.table("board.xml").expect("a table");
    let names = |found: Vec<&Node>| found.iter().map(|node| node.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(table.matching("LINKS.L?.STATUS").expect("a pattern")).len(), 2);
    assert_eq!(names(table.searched("^CONTROL[.]E").expect("an expression")), ["CONTROL.ENABLE"]);
    assert!(table.matching("[").is_err() && table.searched("(").is_err());
    assert_eq!(
        table.no_such("CONTROL.gain"),
        "there is no node `CONTROL.gain`; similar names are CONTROL.GAIN"
    );
    assert_eq!(table.no_such("X"), "there is no node `X`; this table has 10 others");
}

#[test]
fn overlaps_of_two_nodes_are_reported() {
    let text = r#"<node>
  <node id="A" address="0x10"/>
  <node id="B" address="0x10" mask="0x1"/>
  <node id="C" address="0x20"><node id="LOW" mask="0xFF"/><node id="HIGH" mask="0xFF80"/></node>
  <node id="D" address="0x30" mode="block" size="0x10"/>
  <node id="E" address="0x3F"/>
  <node id="F" address="0x40"/>
</node>"#;
    let table = table(text).expect("overlaps are not errors");
    let pairs: Vec<_> =
        table.overlaps().iter().map(|pair| (pair.first.name.clone(), pair.second.name.clone())).collect();
    let expected = [("A", "B"), ("C.LOW", "C.HIGH"), ("D", "E")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(pairs, expected);
    let report = table.overlaps()[2].to_string();
    assert!(report.contains("board.xml:6: `E` at 0x0000003f overlaps `D` at 0x00000030"), "{report}");
}

#[test]
fn an_invalid_table_is_refused_with_file_and_line() {
    for (text, word) in [
        ("<node>\n<node address=\"1\"/>\n</node>", "board.xml:2: `id=\"\"`"),
        ("<node><node id=\"a.b\"/></node>", "a name without dots"),
        (
            "<node><node id=\"A\" addres=\"1\"/></node>",
            "`addres` is not an attribute of a node; there are id, address",
        ),
        ("<node><node id=\"A\" address=\"0x1G\"/></node>", "not a 32-bit number"),
        ("<node><node id=\"A\" mode=\"block\"/></node>", "a block needs its `size`"),
        (
            "<node><node id=\"A\" address=\"0xFFFFFFFF\" mode=\"block\" size=\"2\"/></node>",
            "exceed the 32-bit address space",
        ),
        ("<node><node id=\"A\" mode=\"fast\"/></node>", "`mode=\"fast\"`"),
        ("<node><node id=\"A\" permission=\"x\"/></node>", "`permission=\"x\"`"),
        ("<node><node id=\"A\" mask=\"1\" mode=\"single\"/></node>", "a part of a word"),
        ("<node><node id=\"A\" mask=\"0\"/></node>", "has no bits"),
        ("<node><node id=\"A\" mode=\"port\"><node id=\"B\"/></node></node>", "cannot have child nodes"),
        ("<node><node id=\"A\"/><node id=\"A\"/></node>", "two nodes `A`"),
        (
            "<node><node id=\"A\" module=\"file://b.xml\" mask=\"1\"/></node>",
            "`mask` is not allowed with `module`",
        ),
        ("<node><node id=\"A\" module=\"http://x/b.xml\"/></node>", "not downloaded from http://"),
        ("<node><node id=\"A\" module=\"file://$(rm x).xml\"/></node>", "commands in file names are not run"),
        ("<node><node id=\"A\" module=\"file://b.xml\"/></node>", "b.xml"),
        ("<node><node id=\"A\" parameters=\"b\"/></node>", "not `key=value`"),
        ("<nodes/>", "begins with <node>; this is <nodes>"),
        ("<node><register id=\"A\"/></node>", "only <node> is allowed"),
        ("<node>\n<node id=\"A\">\n</node>", "board.xml:"),
        ("<!DOCTYPE n [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]><node id=\"&b;\"/>", "board.xml:"),
    ] {
        let refused = table(text).expect_err(text).to_string();
        assert!(refused.contains(word), "{refused}");
    }
    let missing = Table::open(Path::new("/no/such/table.xml")).expect_err("no file").to_string();
    assert!(missing.starts_with("/no/such/table.xml: "), "{missing}");
}

#[test]
fn modules_that_include_each_other_are_refused() {
    let of = |other: &str| format!("<node><node id=\"A\" module=\"file://{other}\"/></node>");
    let files = Files::new(&[("a.xml", &of("b.xml")), ("b.xml", &of("a.xml"))]);
    let refused = files.table("a.xml").expect_err("a cycle").to_string();
    assert!(refused.contains("includes itself"), "{refused}");
    // Each file includes the next one twice: 2⁷⁰ nodes without a limit.
    let twice = |next: usize| {
        format!(
            "<node><node id=\"A\" module=\"file://{next}.xml\"/><node id=\"B\" module=\"file://{next}.xml\"/></node>"
        )
    };
    let all: Vec<(String, String)> =
        (0..70).map(|number| (format!("{number}.xml"), twice(number + 1))).collect();
    let files =
        Files::new(&all.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect::<Vec<_>>());
    let refused = files.table("0.xml").expect_err("too deep").to_string();
    assert!(refused.contains("levels"), "{refused}");
}

#[test]
fn connection_files_name_targets_and_their_tables() {
    let entry = |id: &str, uri: &str, table: &str| {
        format!("  <connection id=\"{id}\" uri=\"{uri}\" address_table=\"{table}\"/>\n")
    };
    let board = "chtcp-2.0://localhost:10203?target=192.168.0.2:50001";
    let text = "<connections>\n".to_owned()
        + &entry("board0", board, "file://tables/board.xml")
        + &entry("board1", "ipbusudp-2.0://127.0.0.1:50001", "file://${WHERE}/link.xml")
        + "</connections>";
    let again =
        "<connections>\n".to_owned() + &entry("board0", board, "file://tables/board.xml") + "</connections>";
    let other = "<connections>\n".to_owned()
        + &entry("board0", "ipbusudp-2.0://1.2.3.4:5", "file://a.xml")
        + "</connections>";
    let short = "<connections>\n  <connection id=\"a\" uri=\"b\"/>\n</connections>";
    let files = Files::new(&[
        ("c.xml", &text),
        ("again.xml", &again),
        ("other.xml", &other),
        ("short.xml", short),
        ("tables/board.xml", BOARD),
        ("tables/link.xml", LINK),
    ]);
    let folder = files.path().display();
    let variables = |name: &str| (name == "WHERE").then(|| "tables".to_owned());
    let list = format!("file://{folder}/c.xml;file://{folder}/again.xml");
    let connections = Connections::with(&list, &variables).expect("two files");
    assert_eq!(connections.all().len(), 2);
    let connection = connections.find("board1").expect("there");
    assert_eq!((connection.uri.as_str(), connection.line), ("ipbusudp-2.0://127.0.0.1:50001", 3));
    assert_eq!(connection.open_table().expect("a table").nodes().len(), 1);
    assert_eq!(connections.find("board0").expect("there").open_table().expect("a table").nodes().len(), 10);
    for (list, word) in [
        (format!("file://{folder}/c.xml;file://{folder}/other.xml"), "`board0` names another target at"),
        (format!("file://{folder}/short.xml"), "short.xml:2: a <connection> has no `address_table`"),
        (format!("file://{folder}/none.xml"), "none.xml: "),
    ] {
        let refused = Connections::with(&list, &variables).expect_err(&list).to_string();
        assert!(refused.contains(word), "{refused}");
    }
}
