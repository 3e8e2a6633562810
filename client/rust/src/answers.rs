//! What a stream's answers do to it. They come in the order of their commands; a server whose answers cannot be ends
//! the stream.

use std::{
    collections::{BTreeMap, VecDeque},
    mem,
    sync::Arc,
};

use bytes::{Bytes, BytesMut};
use tokio::sync::oneshot;

use crate::{
    Error, Result,
    error::{bad_server, unavailable},
    v1::{SubmitRequest, SubmitResponse, submit_response::Event},
};

/// An answer that is on its way.
pub(crate) struct Asked {
    /// How many bytes of data it has.
    room: u64,
    /// One piece shares the memory in which it came; further ones are copied behind it.
    first: Bytes,
    rest: BytesMut,
    answer: oneshot::Sender<Result<Bytes>>,
}

impl Asked {
    pub fn new(room: u64, answer: oneshot::Sender<Result<Bytes>>) -> Asked {
        Asked { room, first: Bytes::new(), rest: BytesMut::new(), answer }
    }

    fn forget(&mut self) {
        self.first.clear();
        self.rest.clear();
    }

    fn taken(&self) -> u64 {
        (self.first.len() + self.rest.len()) as u64
    }

    fn take(&mut self, data: Bytes) {
        if self.first.is_empty() {
            self.first = data;
        } else {
            self.rest.extend_from_slice(&data);
        }
    }

    /// Who waits for it may have gone.
    fn set(self, answer: Result<()>) {
        let whole = || if self.rest.is_empty() { self.first } else { [&self.first[..], &self.rest].concat().into() };
        let _ = self.answer.send(answer.map(|()| whole()));
    }
}

/// Of a link.
#[derive(Default)]
pub(crate) struct State {
    pub ended: Option<Error>,
    /// The first of a command that nobody waits for.
    pub failure: Option<Error>,
    pub closing: bool,
    /// The number of the connection; None between two.
    pub connection: Option<u64>,
    connections: u64,
    /// The last command's number.
    pub last: u64,
    /// All answers up to this one's have come.
    pub seen: u64,
    /// Commands that are not confirmed, and their sizes as they go out.
    pub kept: VecDeque<(Arc<SubmitRequest>, usize)>,
    /// Of those, from here on, not sent on this connection.
    pub unsent: usize,
    /// Of those.
    pub bytes: usize,
    /// Commands and bytes since an answer was asked for.
    pub unasked: (usize, usize),
    pub asked: BTreeMap<u64, Asked>,
}

impl State {
    /// A new connection, on which all answers come again from their beginning.
    pub fn connected(&mut self) -> u64 {
        self.connections += 1;
        self.connection = Some(self.connections);
        self.unsent = 0;
        self.asked.values_mut().for_each(Asked::forget);
        self.connections
    }

    /// An error is the failure that the stream must end with.
    pub fn take(&mut self, answer: SubmitResponse, address: &str) -> Result<()> {
        let command = answer.command_id;
        if let Some(Event::Welcome(welcome)) = answer.event {
            return self.give_up(welcome.answers_lost, address);
        }
        if command <= self.seen {
            return Ok(()); // it comes a second time
        }
        if command > self.last {
            return Err(bad_server(format!("answered command {command}, and the last is {}", self.last)));
        }
        if let Some((before, _)) = self.asked.first_key_value().filter(|(before, _)| **before < command) {
            return Err(bad_server(format!("answered command {command}, and has not answered {before}")));
        }
        let asked = self.asked.get_mut(&command);
        let (data, failed) = match answer.event {
            Some(Event::Data(data)) => (data, None),
            Some(Event::Failed(said)) => (Bytes::new(), Some(Error::of_command(&said, command))),
            _ => (Bytes::new(), None),
        };
        if let Some(asked) = asked {
            if data.len() as u64 > asked.room - asked.taken() {
                return Err(bad_server(format!("sent more than the {} bytes of command {command}", asked.room)));
            }
            asked.take(data);
            if !answer.more && failed.is_none() && asked.taken() < asked.room {
                let (taken, room) = (asked.taken(), asked.room);
                return Err(bad_server(format!("sent {taken} bytes of command {command}, not {room}")));
            }
        }
        if answer.more {
            return Ok(());
        }
        self.confirm(command);
        match self.asked.remove(&command) {
            Some(asked) => asked.set(failed.map_or(Ok(()), Err)),
            None => self.failure = self.failure.take().or(failed),
        }
        Ok(())
    }

    /// All up to this command have ended.
    fn confirm(&mut self, command: u64) {
        self.seen = command;
        while self.kept.front().is_some_and(|(request, _)| request.command_id <= command) {
            self.bytes -= self.kept.pop_front().map_or(0, |(_, size)| size);
            self.unsent = self.unsent.saturating_sub(1);
        }
    }

    /// The answers up to `lost` are no longer all there. So nobody knows whether all those commands went well, and the
    /// next fence says that.
    fn give_up(&mut self, lost: u64, address: &str) -> Result<()> {
        if lost <= self.seen {
            return Ok(());
        }
        if lost > self.last {
            return Err(bad_server(format!("lost the answers to {lost} commands of {}", self.last)));
        }
        let failed = |what| unavailable(format!("the connection to {address} was lost with {what}"));
        let still = self.asked.split_off(&(lost + 1));
        for asked in mem::replace(&mut self.asked, still).into_values() {
            asked.set(Err(failed("an answer: ask again")));
        }
        self.failure.get_or_insert_with(|| failed("answers: whether all commands succeeded is not known"));
        self.confirm(lost);
        Ok(())
    }

    /// False if it had ended before.
    pub fn end(&mut self, failed: Error) -> bool {
        if self.ended.is_some() {
            return false;
        }
        let is_told = !self.asked.is_empty() || self.kept.is_empty();
        if !is_told {
            self.failure.get_or_insert_with(|| failed.clone());
        }
        for asked in mem::take(&mut self.asked).into_values() {
            asked.set(Err(failed.clone()));
        }
        (self.bytes, self.unsent) = (0, 0);
        self.kept.clear();
        self.ended = Some(failed);
        true
    }
}
