//! Streams for programs without an asynchronous runtime: separate threads drive the sessions, and
//! calls return at once and wake the caller later.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::Builder;
use tokio::task::JoinHandle;

use crate::config::{Config, ListenerConfig, PathSpec};
use crate::error::{Error, Result};
use crate::listener::{Accepted, MctcpListener};
use crate::stream::MctcpStream;

/// A runtime for sessions. They end when it is dropped.
#[derive(Debug)]
pub struct Runtime {
    /// `None` only during the drop.
    inner: Option<tokio::runtime::Runtime>,
}

/// A session that is being opened; dropping it cancels the attempt.
#[derive(Debug)]
pub struct Connecting(JoinHandle<Result<MctcpStream>>);

impl Runtime {
    /// Starts `threads` threads with this name.
    ///
    /// # Errors
    /// The error of the system if it has no more threads or descriptors.
    pub fn start(name: &str, threads: usize) -> io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(threads.max(1)).thread_name(name).enable_all();
        Ok(Self { inner: Some(builder.build()?) })
    }

    fn enter(&self) -> tokio::runtime::EnterGuard<'_> {
        let inner = self.inner.as_ref();
        inner.expect("present until it is dropped").enter()
    }

    /// Opens a session, as [`MctcpStream::connect`] does.
    pub fn connect(&self, paths: Vec<PathSpec>, target: &str, config: Config) -> Connecting {
        let _entered = self.enter();
        let target = target.to_owned();
        Connecting(tokio::spawn(async move { MctcpStream::connect(paths, &target, config).await }))
    }

    /// Listens, as [`MctcpListener::with`] does.
    ///
    /// # Errors
    /// Those of [`MctcpListener::with`].
    pub fn listen(
        &self,
        sockets: Vec<std::net::TcpListener>,
        config: ListenerConfig,
    ) -> Result<MctcpListener> {
        let _entered = self.enter();
        MctcpListener::with(sockets, config)
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // Does not wait for blocking tasks, which connect sockets.
        if let Some(inner) = self.inner.take() {
            inner.shutdown_background();
        }
    }
}

impl Connecting {
    /// The session, once it is established; otherwise `None`, and `waker` is woken later.
    ///
    /// # Errors
    /// Those of [`MctcpStream::connect`].
    pub fn try_finish(&mut self, waker: &Waker) -> Option<Result<MctcpStream>> {
        match Pin::new(&mut self.0).poll(&mut Context::from_waker(waker)) {
            Poll::Pending => None,
            Poll::Ready(done) => Some(done.unwrap_or(Err(Error::Gone))),
        }
    }
}

impl Drop for Connecting {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl MctcpStream {
    /// Reads received bytes; `Some(0)`: the peer's direction has ended. `None`: there are none, and
    /// `waker` is woken when that changes.
    ///
    /// # Errors
    /// The error that ended the session.
    pub fn try_read(&mut self, buffer: &mut [u8], waker: &Waker) -> io::Result<Option<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        let polled = Pin::new(self).poll_read(&mut Context::from_waker(waker), &mut buffer);
        match polled {
            Poll::Pending => Ok(None),
            Poll::Ready(read) => read.map(|()| Some(buffer.filled().len())),
        }
    }

    /// Writes as much as fits in the send buffer; `None`: it is full, and `waker` is woken later.
    ///
    /// # Errors
    /// The error that ended the session.
    pub fn try_write(&mut self, data: &[u8], waker: &Waker) -> io::Result<Option<usize>> {
        match Pin::new(self).poll_write(&mut Context::from_waker(waker), data) {
            Poll::Pending => Ok(None),
            Poll::Ready(written) => written.map(Some),
        }
    }

    /// Ends this end's direction.
    ///
    /// # Errors
    /// The error that ended the session.
    pub fn finish_writing(&mut self) -> io::Result<()> {
        // This never waits.
        match Pin::new(self).poll_shutdown(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => Ok(()),
            Poll::Ready(done) => done,
        }
    }
}

impl MctcpListener {
    /// The next client; `None`: there is none, and `waker` is woken when that changes.
    ///
    /// # Errors
    /// [`Error::Gone`] if the runtime has shut down.
    pub fn try_accept(&mut self, waker: &Waker) -> Option<Result<Accepted>> {
        match self.poll_accept(&mut Context::from_waker(waker)) {
            Poll::Pending => None,
            Poll::Ready(accepted) => Some(accepted),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr, TcpListener};
    use std::sync::Arc;
    use std::task::Wake;
    use std::thread::Thread;
    use std::time::Duration;

    use super::*;

    /// Wakes a thread.
    struct ThreadWaker(Thread);

    impl Wake for ThreadWaker {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    /// Repeats the call until it returns a result.
    fn wait<T>(mut poll: impl FnMut(&Waker) -> Option<T>) -> T {
        let waker = Waker::from(Arc::new(ThreadWaker(std::thread::current())));
        for _ in 0..100 {
            if let Some(result) = poll(&waker) {
                return result;
            }
            std::thread::park_timeout(Duration::from_millis(100));
        }
        panic!("nothing for 10 s");
    }

    #[test]
    fn transfers_without_a_runtime_on_the_calling_thread() {
        let runtime = Runtime::start("sessions", 1).unwrap();
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at: SocketAddr = socket.local_addr().unwrap();
        let mut listener = runtime.listen(vec![socket], ListenerConfig::default()).unwrap();
        let mut opening = runtime.connect(vec![at.into()], "target", Config::default());
        let mut client = wait(|waker| opening.try_finish(waker)).unwrap();
        let data: Vec<u8> = (0..200_000_u32).map(|i| i as u8).collect();
        let (mut server, mut sent, mut received) = (None, 0, Vec::new());
        let mut buffer = vec![0; 5000];
        wait(|waker| {
            while sent < data.len() {
                let Some(count) = client.try_write(&data[sent..], waker).unwrap() else { break };
                sent += count;
                if sent == data.len() {
                    client.finish_writing().unwrap();
                }
            }
            if server.is_none() {
                let accepted = listener.try_accept(waker)?;
                let Accepted::Session(stream) = accepted.unwrap() else { panic!("plain TCP") };
                assert_eq!(stream.target(), "target");
                server = Some(stream);
            }
            let server = server.as_mut()?;
            loop {
                match server.try_read(&mut buffer, waker).unwrap()? {
                    0 => return Some(()),
                    count => received.extend_from_slice(&buffer[..count]),
                }
            }
        });
        assert!(received == data);
    }

    #[test]
    fn fails_without_a_listener() {
        let runtime = Runtime::start("sessions", 1).unwrap();
        let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let mut opening = runtime.connect(vec![closed.into()], "", Config::default());
        assert!(wait(|waker| opening.try_finish(waker)).is_err());
    }
}
