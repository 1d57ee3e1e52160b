//! The table of channels in a file of comma-separated values.
//!
//! ```text
//!  number,name,group,offset_ps,kev_0,kev_1       ChannelSettings { number: 0, name: "LaBr3", … }
//!  0,LaBr3,gamma,-350,0.0,0.34               ──►  ChannelSettings { number: 1, … }
//!  1,LYSO,gamma,,1.2,0.31                         an empty cell says nothing
//! ```
//! Lines that are empty or begin with `#` are skipped. A cell may stand in double quotes.

use super::ChannelError;
use super::map::COEFFICIENTS;
use super::settings::ChannelSettings;

/// What a column says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Number,
    Name,
    Group,
    Enabled,
    OffsetPs,
    Coefficient(usize),
}

impl Column {
    fn named(name: &str) -> Option<Column> {
        Some(match name {
            "number" => Column::Number,
            "name" => Column::Name,
            "group" => Column::Group,
            "enabled" => Column::Enabled,
            "offset_ps" => Column::OffsetPs,
            _ => {
                let power = name.strip_prefix("kev_")?.parse().ok()?;
                Column::Coefficient(Some(power).filter(|power| *power < COEFFICIENTS)?)
            }
        })
    }
}

/// Reads a table; `file` is what messages call it.
///
/// # Errors
/// An invalid column, row or cell: with file, line, what was found and what to write.
pub fn read(file: &str, text: &str) -> Result<Vec<ChannelSettings>, ChannelError> {
    let refuse = |line: usize, message: String| ChannelError::Table { file: file.to_owned(), line, message };
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let mut lines = lines.by_ref().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let (first, header) = lines
        .next()
        .ok_or_else(|| refuse(1, "the file is empty; its first line names the columns".into()))?;
    let columns = columns(header).map_err(|message| refuse(first, message))?;
    let mut channels: Vec<ChannelSettings> = Vec::new();
    for (line, row) in lines {
        let channel = channel(&columns, row).map_err(|message| refuse(line, message))?;
        if channels.iter().any(|other| other.number == channel.number) {
            return Err(refuse(line, format!("channel {} stands here for the second time", channel.number)));
        }
        channels.push(channel);
    }
    Ok(channels)
}

fn columns(header: &str) -> Result<Vec<Column>, String> {
    let known = "number, name, group, enabled, offset_ps, kev_0 … kev_5";
    let column = |name: &str| {
        Column::named(name).ok_or_else(|| format!("there is no column \"{name}\"; there are {known}"))
    };
    let columns = cells(header).iter().map(|name| column(name)).collect::<Result<Vec<_>, _>>()?;
    match columns.contains(&Column::Number) {
        true => Ok(columns),
        false => Err(format!("no column is called \"number\"; the first line names the columns: {known}")),
    }
}

fn channel(columns: &[Column], row: &str) -> Result<ChannelSettings, String> {
    let cells = cells(row);
    if cells.len() != columns.len() {
        return Err(format!("{} cells where the first line names {} columns", cells.len(), columns.len()));
    }
    let mut channel = ChannelSettings::default();
    let mut numbered = false;
    let mut polynomial = [None; COEFFICIENTS];
    for (column, cell) in columns.iter().zip(cells).filter(|(_, cell)| !cell.is_empty()) {
        let is_no = |what: &str| format!("\"{cell}\" is no {what}");
        match column {
            Column::Number => {
                channel.number = cell.parse().map_err(|_| is_no("channel number (0 to 65535)"))?;
                numbered = true;
            }
            Column::Name => channel.name = Some(cell),
            Column::Group => channel.group = Some(cell),
            Column::Enabled => {
                channel.enabled =
                    Some(flag(&cell).ok_or_else(|| is_no("answer to `enabled`: true or false"))?);
            }
            Column::OffsetPs => {
                channel.offset_ps = Some(cell.parse().map_err(|_| is_no("whole number of picoseconds"))?);
            }
            Column::Coefficient(power) => {
                polynomial[*power] = Some(cell.parse().map_err(|_| is_no("number"))?);
            }
        }
    }
    if !numbered {
        return Err("a row without a channel number".to_owned());
    }
    channel.energy_kev = coefficients(polynomial)?;
    Ok(channel)
}

/// A polynomial may be left out, and end early; it may not have a hole.
fn coefficients(polynomial: [Option<f64>; COEFFICIENTS]) -> Result<Option<Vec<f64>>, String> {
    let given = polynomial.iter().take_while(|value| value.is_some()).count();
    if let Some(beyond) = polynomial[given..].iter().position(Option::is_some) {
        let beyond = given + beyond;
        return Err(format!(
            "kev_{beyond} is given and kev_{given} is not; write 0 where a coefficient is none"
        ));
    }
    Ok((given > 0).then(|| polynomial.iter().flatten().copied().collect()))
}

fn flag(cell: &str) -> Option<bool> {
    match cell {
        "true" | "1" | "yes" => Some(true),
        "false" | "0" | "no" => Some(false),
        _ => None,
    }
}

fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut cell, mut quoted) = (Vec::new(), String::new(), false);
    for character in line.chars() {
        match character {
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(std::mem::take(&mut cell).trim().to_owned()),
            other => cell.push(other),
        }
    }
    cells.push(cell.trim().to_owned());
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_with_its_holes() {
        let text = "# LaBr3 run\nnumber, name, group, enabled, offset_ps, kev_0, kev_1\n\
                    0,\"LaBr3, left\",gamma,true,-350,0.5,0.34\n\n7,,,no,,,\n";
        let channels = read("channels.csv", text).expect("valid");
        assert_eq!(channels[0].name.as_deref(), Some("LaBr3, left"));
        assert_eq!(channels[0].energy_kev.as_deref(), Some(&[0.5, 0.34][..]));
        let silent = ChannelSettings { number: 7, enabled: Some(false), ..ChannelSettings::default() };
        assert_eq!(channels[1], silent);
    }

    #[test]
    fn what_is_invalid_is_shown_with_its_line() {
        let message = |text: &str| read("c.csv", text).expect_err("not a table").to_string();
        assert!(message("").contains("the file is empty"));
        assert!(message("name\nx").contains("no column is called \"number\""));
        assert!(message("number,keV\n1,2").contains("there is no column \"keV\""));
        assert!(message("number,name\n1").contains("line 2: 1 cells where the first line names 2"));
        assert!(message("number\n70000").contains("\"70000\" is no channel number"));
        assert!(message("number\n3\n3").contains("line 3: channel 3 stands here for the second time"));
        assert!(message("number,kev_0,kev_1\n1,,2").contains("kev_1 is given and kev_0 is not"));
        assert!(message("number,enabled\n1,perhaps").contains("true or false"));
        assert!(message("number,name\n,x").contains("without a channel number"));
    }
}
