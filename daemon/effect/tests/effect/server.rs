//! A real HTTP server on loopback, byte by byte under the test's control, that keeps what it got.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    time::Duration,
};

/// One request, as it came.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// Counts the connections of this server.
    pub(crate) connection: usize,
}

impl Received {
    /// The value of a header field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (field, value) = line.split_once(':')?;
            field.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// What the server does with a request, in this order.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Writes these bytes, in one piece.
    Send(Vec<u8>),
    /// Waits.
    Wait(Duration),
    /// Closes the connection.
    Close,
}

/// A whole answer.
pub(crate) fn answer(status: &str, fields: &[(&str, &str)], body: &[u8]) -> Vec<Step> {
    let mut bytes = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in fields {
        bytes.push_str(&format!("{name}: {value}\r\n"));
    }
    bytes.push_str("\r\n");
    let mut bytes = bytes.into_bytes();
    bytes.extend_from_slice(body);
    vec![Step::Send(bytes)]
}

/// The server. It ends with the test's process.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Server {
    /// Starts a server that does what `act` says.
    pub(crate) fn start(act: impl Fn(&Received) -> Vec<Step> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::new(Mutex::new(Vec::new()));
        let (act, kept) = (Arc::new(act), Arc::clone(&received));
        drop(std::thread::spawn(move || {
            for (connection, stream) in listener.incoming().enumerate() {
                let (act, kept) = (Arc::clone(&act), Arc::clone(&kept));
                drop(std::thread::spawn(move || {
                    serve(stream.unwrap(), connection, &*act, &kept);
                }));
            }
        }));
        Self { address, received }
    }

    /// Everything that arrived so far.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }
}

fn serve(
    mut stream: TcpStream,
    connection: usize,
    act: &dyn Fn(&Received) -> Vec<Step>,
    kept: &Mutex<Vec<Received>>,
) {
    stream.set_nodelay(true).unwrap();
    while let Some(request) = read(&mut stream, connection) {
        kept.lock().unwrap().push(request.clone());
        for step in act(&request) {
            match step {
                Step::Send(bytes) => {
                    if stream.write_all(&bytes).is_err() {
                        return;
                    }
                }
                Step::Wait(time) => std::thread::sleep(time),
                Step::Close => return,
            }
        }
    }
}

fn read(stream: &mut TcpStream, connection: usize) -> Option<Received> {
    let mut bytes = Vec::new();
    let head = loop {
        let mut one = [0; 1];
        if stream.read_exact(&mut one).is_err() {
            return None;
        }
        bytes.push(one[0]);
        if bytes.ends_with(b"\r\n\r\n") {
            break String::from_utf8(bytes).unwrap();
        }
    };
    let mut request = Received {
        head,
        body: Vec::new(),
        connection,
    };
    let len = request
        .field("content-length")
        .map_or(0, |len| len.parse().unwrap());
    request.body = vec![0; len];
    stream.read_exact(&mut request.body).ok()?;
    Some(request)
}
