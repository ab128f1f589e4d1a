//! Metrics as text: asked for, and taken apart.

use std::collections::{BTreeMap, BTreeSet};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{Server, in_time};
use crate::wire::{Headers, read_head};

/// What a line on a type, and those beside it, say of a metric.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Family {
    pub kind: String,
    pub help: String,
    pub unit: String,
    /// Names of labels, but for that of buckets.
    pub labels: BTreeSet<String>,
}

#[derive(Debug)]
pub struct Exposition {
    pub text: String,
    /// By the name that a query has.
    pub families: BTreeMap<String, Family>,
    /// Every label with every value.
    pub values: BTreeMap<String, BTreeSet<String>>,
}

/// An answer of the address for metrics.
#[derive(Debug)]
pub struct Scrape {
    pub status: u16,
    pub content_type: String,
    pub text: String,
}

/// Where metrics are, as `address:port`.
pub fn address(server: &Server) -> String {
    let url = std::fs::read_to_string(server.data().join("metrics_url")).expect("the server wrote it");
    let address = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/metrics"));
    address.expect("the address of metrics").to_owned()
}

/// Asks for something at an address; `head` is method and path.
pub async fn ask(address: &str, head: &str, headers: Headers<'_>) -> Scrape {
    let mut request = format!("{head} HTTP/1.0\r\n");
    if !headers.iter().any(|(name, _)| *name == "host") {
        request += &format!("host: {address}\r\n");
    }
    headers.iter().for_each(|(name, value)| request += &format!("{name}: {value}\r\n"));
    let talk = async {
        let mut stream = TcpStream::connect(address).await.expect("the server accepts");
        stream.write_all((request + "\r\n").as_bytes()).await.expect("the server reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.expect("the server answers");
        String::from_utf8(answer).expect("text")
    };
    let answer = in_time("metrics", talk).await;
    let (head, text) = answer.split_once("\r\n\r\n").expect("a head");
    let (status, fields) = read_head(head.as_bytes());
    let content_type = fields.get("content-type").map_or("", |it| it.to_str().expect("text"));
    Scrape { status, content_type: content_type.to_owned(), text: text.to_owned() }
}

/// Metrics as a scraper of today gets them.
pub async fn scrape(server: &Server) -> Exposition {
    let accept = [("accept", "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2")];
    let scrape = ask(&address(server), "GET /metrics", &accept).await;
    assert_eq!((scrape.status, scrape.content_type.split(';').next()), (200, Some("application/openmetrics-text")));
    Exposition::parse(scrape.text)
}

impl Exposition {
    fn parse(text: String) -> Self {
        assert!(text.ends_with("# EOF\n"), "{text}");
        let (mut families, mut values) = (BTreeMap::<String, Family>::new(), BTreeMap::<_, BTreeSet<_>>::new());
        let mut name = String::new();
        let mut family = Family::default();
        for line in text.lines() {
            match line.splitn(4, ' ').collect::<Vec<_>>()[..] {
                ["#", "HELP", _, help] => family = Family { help: help.to_owned(), ..Family::default() },
                ["#", "TYPE", begun, kind] => {
                    name = if kind == "counter" { format!("{begun}_total") } else { begun.to_owned() };
                    family.kind = kind.to_owned();
                    assert!(families.insert(name.clone(), family.clone()).is_none(), "{name} is there twice");
                }
                ["#", "UNIT", _, unit] => unit.clone_into(&mut families.get_mut(&name).expect("begun").unit),
                ["#", "EOF"] => {}
                _ => {
                    assert!(line.starts_with(&name), "{line} belongs to {name}");
                    for (label, value) in labels(line).into_iter().filter(|(label, _)| *label != "le") {
                        families.get_mut(&name).expect("begun").labels.insert(label.to_owned());
                        values.entry(label.to_owned()).or_default().insert(value.to_owned());
                    }
                }
            }
        }
        Self { text, families, values }
    }

    /// The value of a sample that is named with its labels; 0 if it is not there.
    pub fn value(&self, sample: &str) -> f64 {
        let found = self.text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        found.map_or(0.0, |number| number.parse().expect("a number"))
    }
}

/// Names and values of the labels of a sample. No value of ours holds a quotation mark.
fn labels(line: &str) -> Vec<(&str, &str)> {
    let Some((_, rest)) = line.split_once('{') else { return Vec::new() };
    let (inside, _) = rest.rsplit_once('}').expect("an end of the labels");
    let parts: Vec<_> = inside.split('"').collect();
    parts.chunks_exact(2).map(|pair| (pair[0].trim_matches([',', '=']), pair[1])).collect()
}
