//! A client of the feed: its requests, the responses, and its subscriptions.

use serde_json::{Map, Value, json};

use super::Notice;
use super::filter::Filter;

const MESSAGE_LIMIT: usize = 1 << 16;
const SUBSCRIPTION_LIMIT: usize = 1000;

#[derive(Clone, Debug, Default)]
pub struct Client {
    subscriptions: Vec<Filter>,
    include_raw: bool,
    acknowledge: bool,
}

impl Client {
    pub fn new() -> Self {
        Self::default()
    }

    /// Processes a message of the client; `hosts` lists the hosts that messages can have.
    /// Returns the responses.
    pub fn handle(&mut self, message: &str, hosts: impl FnOnce() -> Vec<String>) -> Vec<String> {
        if message.len() > MESSAGE_LIMIT {
            return vec![error(&format!("a message can have at most {MESSAGE_LIMIT} bytes"))];
        }
        let Ok(Value::Object(message)) = serde_json::from_str(message) else {
            return vec![error("a message must be a JSON object")];
        };
        let nothing = Map::new();
        let data = match message.get("data") {
            None | Some(Value::Null) => &nothing,
            Some(Value::Object(data)) => data,
            Some(_) => return vec![error("`data` has to be an object or null")],
        };
        let Some(kind) = message.get("type").and_then(Value::as_str) else {
            return vec![error("`type` has to be a string")];
        };
        let replies = match kind {
            "ris_subscribe" => self.subscribe(data),
            "ris_unsubscribe" => self.unsubscribe(data),
            "request_rrc_list" => Ok(vec![json!({"type": "ris_rrc_list", "data": hosts()})]),
            "ping" => Ok(vec![json!({"type": "pong", "data": null})]),
            _ => {
                let data = json!({"message": "Unknown command type", "command_type": kind});
                Ok(vec![json!({"type": "ris_error", "data": data})])
            }
        };
        match replies {
            Ok(replies) => replies.iter().map(Value::to_string).collect(),
            Err(message) => vec![error(&message)],
        }
    }

    fn subscribe(&mut self, data: &Map<String, Value>) -> Result<Vec<Value>, String> {
        let filters = Filter::parse(data)?;
        if self.subscriptions.len() + filters.len() > SUBSCRIPTION_LIMIT {
            return Err(format!("a client can have at most {SUBSCRIPTION_LIMIT} subscriptions"));
        }
        if let Some(Value::Object(options)) = data.get("socketOptions") {
            let flag = |name| options.get(name).and_then(Value::as_bool).unwrap_or(false);
            self.include_raw = flag("includeRaw");
            self.acknowledge = flag("acknowledge");
        }
        let options = json!({"includeRaw": self.include_raw, "acknowledge": self.acknowledge});
        let mut replies = Vec::new();
        for filter in filters {
            if self.acknowledge {
                let data = json!({"subscription": filter.to_json(), "socketOptions": options});
                replies.push(json!({"type": "ris_subscribe_ok", "data": data}));
            }
            if !self.subscriptions.contains(&filter) {
                self.subscriptions.push(filter);
            }
        }
        Ok(replies)
    }

    /// Ends equal subscriptions; without parameters, all.
    fn unsubscribe(&mut self, data: &Map<String, Value>) -> Result<Vec<Value>, String> {
        let ended = Filter::parse(data)?;
        if data.is_empty() {
            self.subscriptions.clear();
        }
        self.subscriptions.retain(|filter| !ended.contains(filter));
        Ok(Vec::new())
    }

    pub const fn wants_raw(&self) -> bool {
        self.include_raw
    }

    pub fn matches(&self, host: &str, notice: &Notice<'_>) -> bool {
        self.subscriptions.iter().any(|filter| filter.matches(host, notice))
    }
}

fn error(message: &str) -> String {
    json!({"type": "ris_error", "data": {"message": message}}).to_string()
}
