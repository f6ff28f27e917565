//! The listener, its limits, and which page a request is for.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use custody_shown::{Sheet, words};
use custody_wire::operator::{Answer, Behind, Judged, OfPage, Shown, Ticket};
use gate::{
    approval::{Reach, Scope},
    id::SessionId,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};

use crate::{
    control::{Control, ControlError, unexpected},
    forms::Form,
    guard::{self, Foreign},
    pages,
};

/// The most connections at once: a browser has six to a host (its own limit).
const CONNECTIONS: usize = 64;

/// How long one may last; there is one request on each.
const PATIENCE: Duration = Duration::from_secs(60);

/// After accept(2) failed.
const PAUSE: Duration = Duration::from_millis(100);

/// A form is some hundred bytes and a reason.
const BODY_MAX: usize = 8 << 10;

/// The longest head of a request.
const HEAD_MAX: usize = 16 << 10;

/// What each response says of itself: nothing loads from elsewhere, nothing runs, nobody frames it, no
/// cache keeps it, and no address of it goes to others.
const HEADERS: [(header::HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
         sandbox allow-forms allow-same-origin",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::CACHE_CONTROL, "no-store"),
    // Not `no-referrer`: with it browsers say `Origin: null` of our own forms (Fetch, section 3.1).
    (header::REFERRER_POLICY, "same-origin"),
    (
        header::HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        header::HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// The page.
#[derive(Debug)]
pub struct Page {
    /// The way to control.
    pub control: Control,
    /// Its own host and port, as browsers say them.
    pub authority: String,
}

/// Why there is another answer than a page.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Control(#[from] ControlError),
    #[error("the call is another than the one that you were shown; look at it again")]
    Changed,
    #[error(transparent)]
    Foreign(#[from] Foreign),
    #[error("the form cannot be read: {0}")]
    Form(String),
    #[error("you are not logged in; `custody review --web` prints a link")]
    LoggedOut,
    #[error("there is no such page")]
    NoPage,
    #[error(transparent)]
    Sheet(#[from] custody_shown::SheetError),
}

impl Failure {
    const fn status(&self) -> StatusCode {
        match self {
            Self::Changed => StatusCode::CONFLICT,
            Self::Control(ControlError::Refused { .. }) | Self::Foreign(_) | Self::LoggedOut => {
                StatusCode::FORBIDDEN
            }
            Self::Control(_) | Self::Sheet(_) => StatusCode::BAD_GATEWAY,
            Self::Form(_) => StatusCode::BAD_REQUEST,
            Self::NoPage => StatusCode::NOT_FOUND,
        }
    }
}

type Reply = Response<Full<Bytes>>;

/// Serves for ever.
pub async fn serve(page: Arc<Page>, listener: TcpListener) -> Infallible {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // It is never closed.
        let place = Arc::clone(&room).acquire_owned().await.ok();
        match listener.accept().await {
            Ok((stream, _from)) => {
                let page = Arc::clone(&page);
                drop(tokio::spawn(async move {
                    if timeout(PATIENCE, converse(page, stream)).await.is_err() {
                        tracing::debug!("a browser took too long");
                    }
                    drop(place);
                }));
            }
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                sleep(PAUSE).await;
            }
        }
    }
}

async fn converse(page: Arc<Page>, stream: TcpStream) {
    let service = service_fn(move |request| {
        let page = Arc::clone(&page);
        async move { Ok::<_, Infallible>(page.answer(request).await) }
    });
    let served = http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(HEAD_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a browser's connection");
    }
}

impl Page {
    async fn answer(&self, request: Request<Incoming>) -> Reply {
        let (head, body) = request.into_parts();
        let answered = match guard::host(&head.headers, &self.authority) {
            Ok(()) => {
                self.route(&head.method, head.uri.path(), &head.headers, body)
                    .await
            }
            Err(foreign) => Err(Failure::Foreign(foreign)),
        };
        let mut reply = answered.unwrap_or_else(|failure| {
            tracing::info!(%failure, "not answered");
            let text = custody_shown::inert::line(&failure.to_string());
            html(failure.status(), pages::message("Not done", &text, None))
        });
        for (name, value) in HEADERS {
            reply
                .headers_mut()
                .insert(name, HeaderValue::from_static(value));
        }
        reply
    }

    async fn route(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
        body: Incoming,
    ) -> Result<Reply, Failure> {
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        let ticket = |half: &str| guard::ticket(headers, half).ok_or(Failure::LoggedOut);
        match (method, parts.as_slice()) {
            (&Method::GET, ["style.css"]) => Ok(style()),
            (&Method::GET, ["login", token]) => {
                let _read = secret(token).ok_or(Failure::NoPage)?;
                Ok(html(StatusCode::OK, pages::login(token)))
            }
            (&Method::POST, ["login"]) => {
                let form = self.form(headers, body).await?;
                self.enter(&form).await
            }
            (&Method::GET, ["r", half]) => self.list(ticket(half)?, None).await,
            (&Method::GET, ["r", half, "after", since, session, pending]) => {
                let behind = behind(since, session, pending).ok_or(Failure::NoPage)?;
                self.list(ticket(half)?, Some(behind)).await
            }
            (&Method::GET, ["r", half, "call", session, pending]) => {
                let (session, pending) = named(session, pending).ok_or(Failure::NoPage)?;
                let ticket = ticket(half)?;
                let (shown, sheet) = self.shown(ticket, session, pending).await?;
                Ok(html(StatusCode::OK, pages::call(&ticket, &shown, &sheet)))
            }
            (&Method::POST, ["r", half, "answer"]) => {
                let ticket = ticket(half)?;
                let form = self.form(headers, body).await?;
                self.decide(ticket, &form).await
            }
            (&Method::POST, ["r", half, "leave"]) => {
                let ticket = ticket(half)?;
                let form = self.form(headers, body).await?;
                guard::check_token(&ticket, "leave", form.field("token"))?;
                self.done(ticket, OfPage::Leave).await?;
                let text = "`custody review --web` prints a new link.";
                Ok(html(
                    StatusCode::OK,
                    pages::message("Logged out", text, None),
                ))
            }
            _ => Err(Failure::NoPage),
        }
    }

    /// A form of ours.
    async fn form(&self, headers: &HeaderMap, body: Incoming) -> Result<Form, Failure> {
        guard::origin(headers, &self.authority)?;
        let body = Limited::new(body, BODY_MAX)
            .collect()
            .await
            .map_err(|error| Failure::Form(error.to_string()))?;
        Form::read(&body.to_bytes()).ok_or_else(|| Failure::Form("it is no form".into()))
    }

    async fn enter(&self, form: &Form) -> Result<Reply, Failure> {
        let token = secret(form.field("token")).ok_or(Failure::NoPage)?;
        let ticket = self.control.enter(token).await?;
        let mut reply = see(&pages::home(&ticket))?;
        let cookie = HeaderValue::from_str(&guard::set_cookie(&ticket))
            .map_err(|_header| Failure::LoggedOut)?;
        reply.headers_mut().insert(header::SET_COOKIE, cookie);
        Ok(reply)
    }

    async fn list(&self, ticket: Ticket, after: Option<Behind>) -> Result<Reply, Failure> {
        let answer = self.control.ask(ticket, OfPage::Pending { after }).await?;
        let Answer::Pending { calls, next } = answer else {
            return Err(Failure::Control(unexpected()));
        };
        let page = pages::list(&ticket, &calls, next, now());
        Ok(html(StatusCode::OK, page))
    }

    async fn shown(
        &self,
        ticket: Ticket,
        session: SessionId,
        pending: u64,
    ) -> Result<(Box<Shown>, Sheet), Failure> {
        let answer = self.control.ask(ticket, OfPage::Show { pending, session });
        let Answer::Shown(shown) = answer.await? else {
            return Err(Failure::Control(unexpected()));
        };
        let sheet = Sheet::of(&shown, now())?;
        Ok((shown, sheet))
    }

    /// The call is fetched again: what is answered is what the form's page showed, or nothing.
    async fn decide(&self, ticket: Ticket, form: &Form) -> Result<Reply, Failure> {
        let unread = |what: &str| Failure::Form(format!("its {what} is missing or wrong"));
        let (session, pending) =
            named(form.field("session"), form.field("pending")).ok_or_else(|| unread("call"))?;
        let (shown, sheet) = self.shown(ticket, session, pending).await?;
        if sheet.digest.to_string() != form.field("digest") {
            return Err(Failure::Changed);
        }
        guard::check_token(&ticket, &pages::about(&sheet), form.field("token"))?;
        let of = Judged {
            session: shown.waits.session,
            pending: sheet.pending,
            digest: sheet.digest,
        };
        let what = match form.field("answer") {
            "approve" => OfPage::Approve {
                of,
                scope: scope(form)?,
            },
            "refuse" => OfPage::Refuse {
                of,
                why: form.field("why").into(),
            },
            _ => return Err(unread("answer")),
        };
        self.done(ticket, what).await?;
        // Shown by a GET: to reload it answers nothing twice.
        see(&format!(
            "{}/call/{session}/{pending}",
            pages::home(&ticket)
        ))
    }

    async fn done(&self, ticket: Ticket, what: OfPage) -> Result<(), Failure> {
        let Answer::Done = self.control.ask(ticket, what).await? else {
            return Err(Failure::Control(unexpected()));
        };
        Ok(())
    }
}

fn scope(form: &Form) -> Result<Scope, Failure> {
    let reach = match form.field("scope") {
        "once" => Reach::Once,
        "session" => Reach::Call,
        "target" => Reach::Target,
        _ => return Err(Failure::Form("its scope is missing or wrong".into())),
    };
    let until = match form.field("for").trim() {
        "" => None,
        span => {
            let span = words::parse_span(span).map_err(Failure::Form)?;
            let span = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
            Some(now().saturating_add(span))
        }
    };
    Ok(Scope { reach, until })
}

fn named(session: &str, pending: &str) -> Option<(SessionId, u64)> {
    let session = SessionId::parse(session).ok()?;
    Some((session, pending.parse().ok()?))
}

fn behind(since: &str, session: &str, pending: &str) -> Option<Behind> {
    let (session, pending) = named(session, pending)?;
    Some(Behind {
        since: since.parse().ok()?,
        session,
        pending,
    })
}

fn secret(text: &str) -> Option<Ticket> {
    let mut bytes = [0; 32];
    hex::decode_to_slice(text, &mut bytes).ok()?;
    Some(Ticket(bytes))
}

fn html(status: StatusCode, page: String) -> Reply {
    reply(status, "text/html; charset=utf-8", page)
}

fn style() -> Reply {
    reply(
        StatusCode::OK,
        "text/css; charset=utf-8",
        pages::STYLE.into(),
    )
}

fn reply(status: StatusCode, kind: &'static str, body: String) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from(body)));
    *reply.status_mut() = status;
    reply
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    reply
}

fn see(place: &str) -> Result<Reply, Failure> {
    let mut reply = html(StatusCode::SEE_OTHER, String::new());
    let place = HeaderValue::from_str(place).map_err(|_header| Failure::NoPage)?;
    reply.headers_mut().insert(header::LOCATION, place);
    Ok(reply)
}

fn now() -> u64 {
    use custody_service::clock::Clock as _;
    custody_service::clock::BootClock.unix_ms()
}
