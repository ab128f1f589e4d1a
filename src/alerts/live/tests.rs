//! What readers meet.

use futures::FutureExt as _;

use super::*;

fn line(n: u64) -> Item {
    Item::Line(Line { n: Some(n), json: n.to_string().into() })
}

fn tell(live: &Live, n: u64) {
    live.placed(n, Some(n.to_string().as_bytes()));
}

fn all(reader: &mut Reader) -> Vec<Item> {
    std::iter::from_fn(|| reader.try_next()).collect()
}

#[tokio::test]
async fn readers_meet_what_comes_from_now_on_or_after_a_number() {
    let live = Live::default();
    live.placed(7, None);
    tell(&live, 8);
    live.placed(9, None);
    tell(&live, 10);
    let mut now = live.reader(None).unwrap();
    assert_eq!(now.next().now_or_never(), None);
    assert_eq!(all(&mut live.reader(Some(8)).unwrap()), [line(10)]);
    assert_eq!(all(&mut live.reader(Some(9)).unwrap()), [line(10)]);
    assert_eq!(all(&mut live.reader(Some(6)).unwrap()), [line(8), line(10)], "nothing is missing");
    let gap = Item::Gap { from: 3, to: 6 };
    assert_eq!(all(&mut live.reader(Some(2)).unwrap()), [gap, line(8), line(10)], "an earlier gateway had them");
    let mut ahead = live.reader(Some(999)).unwrap();
    live.unnumbered(b"x".to_vec());
    tell(&live, 11);
    let unnumbered = Item::Line(Line { n: None, json: "x".into() });
    assert_eq!([now.next().await, now.next().await], [unnumbered.clone(), line(11)]);
    assert_eq!(all(&mut ahead), [unnumbered.clone(), line(11)]);
    assert_eq!(all(&mut live.reader(Some(10)).unwrap()), [unnumbered, line(11)]);
}

#[test]
fn a_reader_that_stops_is_told_what_it_missed_and_others_miss_nothing() {
    let live = Live::default();
    let (mut slow, mut quick) = (live.reader(None).unwrap(), live.reader(None).unwrap());
    let count = CAPACITY as u64 + 10;
    for n in 1..=count {
        tell(&live, 2 * n);
        assert_eq!(all(&mut quick), [line(2 * n)]);
    }
    let met = all(&mut slow);
    assert_eq!(met[0], Item::Gap { from: 2, to: 20 });
    assert_eq!((met.len(), met.last()), (CAPACITY + 1, Some(&line(2 * count))));
    assert_eq!(all(&mut slow), []);
}

#[test]
fn readers_are_bounded_and_give_their_place_back() {
    let live = Live::default();
    let readers: Vec<_> = (0..MAX_READERS).map(|_| live.reader(None).unwrap()).collect();
    assert!(live.reader(None).is_none());
    drop(readers);
    assert!(live.reader(Some(1)).is_some());
}
