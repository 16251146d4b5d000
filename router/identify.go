package router

import (
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/attribute"

	"github.com/signalbox-llm/signalbox/telemetry"
	"github.com/signalbox-llm/signalbox/translate/peek"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// maxModelID bounds, in bytes, what a client may call a model: a pattern would have it kept in pins, in the ledger and
// among the recent requests.
const maxModelID = 2048

// identify finds the envelope of the request: model, stream and session. The body is looked at once and never decoded.
func (x *exchange) identify() error {
	if err := x.object.Scan(x.body.bytes); err != nil {
		return &Error{Kind: "invalid_body", Status: http.StatusBadRequest, Msg: "the request body is not one JSON object: " + err.Error(), Err: err, class: callerInvalid}
	}
	// A member that stands twice could mean one thing to the router and another to the upstream.
	if name := x.object.Repeated("model", "stream", "stream_options", "metadata", "prompt_cache_key", "previous_response_id"); name != "" {
		return invalid("invalid_body", `the request body has the member "`+name+`" twice`)
	}
	if x.asked = x.route.Model; x.route.Wire.ModelInBody() {
		id, ok := peek.String(x.object.Value("model"))
		if !ok || id == "" {
			return invalid("invalid_body", `the request body has no "model", which says where it should go`)
		}
		x.asked = id
	}
	if len(x.asked) > maxModelID {
		return invalid("invalid_body", "the model's id is too long")
	}
	x.streaming = x.route.Wire.WantsStream(&x.object, x.route)
	if x.session = x.sessionOf(); x.session.ID != "" {
		x.hash = sessionHash(x.session.ID)
	}
	if x.conversation = x.session.ID; x.key != "" && x.session.ID != "" {
		x.conversation = x.key + "\x00" + x.session.ID
	}
	x.identifyClient()
	x.describe()
	return nil
}

// identifyClient finds the type of the agent by its User-Agent: the first rule that matches counts, and says how often
// one target is asked again before another. Without one, telemetry still tells well-known agents apart.
func (x *exchange) identifyClient() {
	x.repeats = x.snap.cfg.Failover.SameTargetFirst
	agent := x.req.Header.Get("User-Agent")
	x.clientType = telemetry.ClientType(agent)
	for i := range x.snap.cfg.Clients {
		if c := &x.snap.cfg.Clients[i]; globMatch(c.UserAgent, agent) {
			x.client, x.clientType, x.repeats = c.Name, c.Name, c.Retries
			return
		}
	}
}

// describe puts what is now known of the request on its span.
func (x *exchange) describe() {
	if x.notes == nil {
		return
	}
	x.notes.add(
		attribute.String(telemetry.AttrWire, string(x.route.Wire.Name)),
		attribute.String(telemetry.AttrCall, x.call),
		attribute.String(telemetry.AttrClientModel, clip(x.asked, 256)),
		attribute.Bool(telemetry.AttrStream, x.streaming),
	)
	if x.key != "" {
		x.notes.add(attribute.String(telemetry.AttrKey, x.key))
	}
	if x.clientType != "" {
		x.notes.add(attribute.String(telemetry.AttrClientType, x.clientType))
	}
	if x.session.ID == "" {
		return
	}
	x.notes.add(
		attribute.String(telemetry.AttrSessionSource, x.session.Source),
		attribute.String(telemetry.AttrSessionHash, x.hash),
	)
	if s := x.session.Source; s != "prefix" && s != "user" { // the one is derived and says nothing to the client, the other names a person
		x.notes.add(attribute.String(telemetry.AttrConversation, clip(x.session.ID, 256)))
	}
	if x.session.Agent != "" {
		x.notes.add(attribute.String(telemetry.AttrAgent, clip(x.session.Agent, 256)))
	}
}

// generates reports whether the request makes a model write, rather than count.
func (x *exchange) generates() bool { return x.route.Op == wire.Generate }

// parameters notes the request's settings that the conventions for generative AI name.
func (x *exchange) parameters(to *notes) {
	for _, p := range requestParameters {
		raw := x.object.Value(p.field)
		if raw == nil {
			continue
		}
		if f, err := strconv.ParseFloat(string(raw), 64); err == nil {
			if p.whole {
				to.add(attribute.Int64(p.key, int64(f)))
			} else {
				to.add(attribute.Float64(p.key, f))
			}
		}
	}
}

var requestParameters = []struct {
	field, key string
	whole      bool
}{
	{"max_tokens", telemetry.AttrMaxTokens, true},
	{"max_completion_tokens", telemetry.AttrMaxTokens, true},
	{"max_output_tokens", telemetry.AttrMaxTokens, true},
	{"temperature", telemetry.AttrTemperature, false},
	{"top_p", telemetry.AttrTopP, false},
	{"top_k", telemetry.AttrTopK, true},
	{"frequency_penalty", telemetry.AttrFrequencyPenalty, false},
	{"presence_penalty", telemetry.AttrPresencePenalty, false},
	{"seed", telemetry.AttrSeed, true},
}
