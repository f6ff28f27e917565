//! The Model Context Protocol by rmcp, both eras: the handshake of 2025-11-25 and before, and the
//! self-contained requests of 2026-07-28. Nothing of rmcp is known outside this crate.

use std::sync::Arc;

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, Implementation, ListToolsResult,
        PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig,
    },
    service::RequestContext,
};

use crate::{
    ask::Gate,
    say,
    transport::{Admitted, Transport},
};

/// What a model should know of these tools.
const INSTRUCTIONS: &str = "Each call is decided on who supplied every argument. A refusal names \
    the rule, the argument and the reason; repeating the same call does not change it. A failure \
    says whether the effect may have happened. An answer that streams has a number: `custody-bridge \
    --stream NUMBER` in a shell of this session writes its bytes to standard output, once.";

/// Serves one connection until it ends.
pub async fn serve(transport: Transport, gate: Gate) {
    match rmcp::serve_server(Server { gate }, transport).await {
        Ok(running) => {
            if let Err(error) = running.waiting().await {
                tracing::error!(%error, "a connection's task failed");
            }
        }
        // What the agent did wrong was said to the agent; its words are not for our log.
        Err(_) => tracing::debug!("a connection ended before it began"),
    }
}

/// Whether this request's client shows its user a form (elicitation), by a revision in which a call is
/// answered so.
fn shows_people(context: &RequestContext<RoleServer>) -> bool {
    let newest = context
        .protocol_version()
        .is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str());
    let form = context
        .client_capabilities()
        .and_then(|client| client.elicitation)
        // Without a word on modes it is forms.
        .is_some_and(|it| it.form.is_some() || it.url.is_none());
    newest && form
}

#[derive(Debug)]
struct Server {
    gate: Gate,
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("custody", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // Held to the end: it is this request's place among those worked on.
        let Some(admitted) = context.extensions.get::<Admitted>() else {
            return Err(ErrorData::internal_error(
                "the call did not come through the strict parser",
                None,
            ));
        };
        let arguments = Arc::clone(&admitted.arguments).to_vec();
        // A second round of ours: what the client says in it is the agent's word and changes nothing but
        // that nobody is asked a second time.
        let first = request.input_responses.is_none() && request.request_state.is_none();
        let answer = self.gate.call(request.name.into_owned(), arguments).await;
        let asks = first && shows_people(&context);
        Ok(match say::asked_of_people(&answer).filter(|_| asks) {
            Some(required) => required.into(),
            None => say::outcome(answer).into(),
        })
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let internal = |why: String| ErrorData::internal_error(why, None);
        let views = self
            .gate
            .tools()
            .await
            .map_err(|gone| internal(gone.to_string()))?;
        let mut tools = views
            .into_iter()
            .map(say::tool)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| internal(error.to_string()))?;
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(ListToolsResult::with_all_items(tools))
    }
}
