//! Messages of generated sessions, encoded without code of the project.

/// AFI and SAFI: IPv4 and IPv6 unicast, IPv4 multicast, IPv4 VPN.
pub(crate) const FAMILIES: [(u16, u8); 4] = [(1, 1), (2, 1), (1, 2), (1, 128)];

pub(crate) const PEER_AS: u32 = 64_501;

/// A route of a peer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) family: (u16, u8),
    pub(crate) nlri: Vec<u8>,
    pub(crate) path_id: Option<u32>,
}

#[derive(Clone, Debug)]
pub(crate) struct Route {
    /// `MULTI_EXIT_DISC`: a number that no other UPDATE has.
    pub(crate) serial: u32,
    /// An UPDATE that announces this route alone.
    pub(crate) alone: Vec<u8>,
}

/// Effect of a message on the routes of its peer.
#[derive(Clone, Debug)]
pub(crate) enum Meaning {
    /// Routes with their new serial number, or withdrawn.
    Changes(Vec<(Key, Option<u32>)>),
    /// Markers of a route refresh, and whether both ends support them.
    Begin((u16, u8), bool),
    End((u16, u8), bool),
}

#[derive(Clone, Debug)]
pub(crate) struct Update {
    pub(crate) family: usize,
    /// Numbers of prefixes.
    pub(crate) withdrawn: Vec<u8>,
    pub(crate) announced: Vec<u8>,
    pub(crate) path: u8,
    /// Length of the AS path.
    pub(crate) hops: u8,
}

/// Encoding of the messages of a session.
#[derive(Clone, Debug)]
pub(crate) struct Codec {
    pub(crate) four_octet_as: bool,
    /// The peer sends several paths of each family.
    pub(crate) add_path: bool,
}

pub(crate) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (19 + body.len() as u16).to_be_bytes();
    [&[0xff; 16], &length[..], &[kind], body].concat()
}

pub(crate) fn keepalive() -> Vec<u8> {
    message(4, &[])
}

/// Cease: administrative shutdown.
pub(crate) fn notification() -> Vec<u8> {
    message(3, &[6, 2])
}

pub(crate) fn route_refresh(family: usize, subtype: u8) -> Vec<u8> {
    let (afi, safi) = FAMILIES[family];
    message(5, &[0, afi as u8, subtype, safi])
}

pub(crate) fn end_of_rib(family: usize) -> Vec<u8> {
    match FAMILIES[family] {
        (1, 1) => message(2, &[0; 4]),
        (afi, safi) => message(2, &[0, 0, 0, 6, 0x80, 15, 3, 0, afi as u8, safi]),
    }
}

/// An OPEN with a hold time of 90 s. The router receives the paths that the peer sends.
pub(crate) fn open(asn: u32, is_peer: bool, codec: &Codec, refresh: bool) -> Vec<u8> {
    let mut capabilities = Vec::new();
    let mut add = |code: u8, value: &[u8]| {
        capabilities.extend([code, value.len() as u8]);
        capabilities.extend_from_slice(value);
    };
    let mut paths = Vec::new();
    for (afi, safi) in FAMILIES {
        add(1, &[0, afi as u8, 0, safi]);
        paths.extend([0, afi as u8, safi, if is_peer { 2 } else { 1 }]);
    }
    add(2, &[]);
    if codec.four_octet_as {
        add(65, &asn.to_be_bytes());
    }
    if codec.add_path {
        add(69, &paths);
    }
    if refresh {
        add(70, &[]);
    }
    let length = capabilities.len() as u8;
    let head = [&[4][..], &(asn as u16).to_be_bytes(), &[0, 90, 10, 0, 0, is_peer.into()]].concat();
    message(1, &[&head[..], &[length + 2, 2, length], &capabilities].concat())
}

/// A prefix, with a label and a route distinguisher in a VPN.
fn nlri(family: usize, number: u8) -> Vec<u8> {
    match FAMILIES[family] {
        (2, _) => vec![48, 0x20, 0x01, 0x0d, 0xb8, 0, number],
        (_, 128) => {
            vec![24 + 64 + 24, 0, 1, 1, 0, 0, 0xfb, 0xf5, 0, 0, 0, 9, 203, 0, number]
        }
        _ => vec![24, 198, 51, number],
    }
}

fn next_hop(family: usize) -> Vec<u8> {
    match FAMILIES[family] {
        (2, _) => [&[0x20, 0x01, 0x0d, 0xb8][..], &[0; 11], &[77]].concat(),
        (_, 128) => [&[0; 8][..], &[192, 0, 2, 77]].concat(),
        _ => vec![192, 0, 2, 77],
    }
}

fn attribute(flags: u8, code: u8, value: &[u8]) -> Vec<u8> {
    let length = (value.len() as u16).to_be_bytes();
    [&[flags | 0x10, code][..], &length, value].concat()
}

impl Codec {
    /// An UPDATE and the routes that it changes.
    pub(crate) fn update(
        &self,
        update: &Update,
        serial: u32,
        is_peer: bool,
    ) -> (Vec<u8>, Vec<(Key, Option<Route>)>) {
        let family = update.family;
        let path_id = (self.add_path && is_peer).then(|| u32::from(update.path));
        let key =
            |number: &u8| Key { family: FAMILIES[family], nlri: nlri(family, *number), path_id };
        let announced: Vec<Key> = update.announced.iter().map(key).collect();
        let withdrawn = update.withdrawn.iter().map(key).filter(|key| !announced.contains(key));
        let withdrawn: Vec<Key> = withdrawn.collect();
        let bytes = self.encode(family, &withdrawn, &announced, (serial, update.hops));
        let route = |key: &Key| Route {
            serial,
            alone: self.encode(family, &[], std::slice::from_ref(key), (serial, update.hops)),
        };
        let changes = withdrawn.iter().map(|key| (key.clone(), None));
        let additions = announced.iter().map(|key| (key.clone(), Some(route(key))));
        (bytes, changes.chain(additions).collect())
    }

    fn encode(
        &self,
        family: usize,
        withdrawn: &[Key],
        announced: &[Key],
        (serial, hops): (u32, u8),
    ) -> Vec<u8> {
        let field = |keys: &[Key]| {
            let route = |key: &Key| {
                let id = key.path_id.map(u32::to_be_bytes);
                [id.as_ref().map_or(&[][..], |id| id), &key.nlri].concat()
            };
            keys.iter().flat_map(route).collect::<Vec<u8>>()
        };
        let (afi, safi) = FAMILIES[family];
        let head = [0, afi as u8, safi];
        let (mut gone, mut new) = (field(withdrawn), field(announced));
        let mut attributes = Vec::new();
        let is_plain = family == 0;
        if !new.is_empty() {
            attributes.extend(attribute(0x40, 1, &[0]));
            attributes.extend(attribute(0x40, 2, &self.path(hops)));
            if is_plain {
                attributes.extend(attribute(0x40, 3, &next_hop(family)));
            }
            attributes.extend(attribute(0x80, 4, &serial.to_be_bytes()));
        }
        if !is_plain && !new.is_empty() {
            let hop = next_hop(family);
            let value = [&head[..], &[hop.len() as u8], &hop, &[0], &new].concat();
            attributes.extend(attribute(0x80, 14, &value));
            new.clear();
        }
        if !is_plain && !gone.is_empty() {
            attributes.extend(attribute(0x80, 15, &[&head[..], &gone].concat()));
            gone.clear();
        }
        let length = |part: &[u8]| (part.len() as u16).to_be_bytes();
        let parts = [&length(&gone)[..], &gone, &length(&attributes), &attributes, &new];
        message(2, &parts.concat())
    }

    fn path(&self, hops: u8) -> Vec<u8> {
        let mut path = vec![2, hops];
        for hop in 0..u32::from(hops) {
            let asn = (PEER_AS + hop).to_be_bytes();
            path.extend_from_slice(if self.four_octet_as { &asn } else { &asn[2..] });
        }
        path
    }
}
