package control

import (
	"time"

	"github.com/signalbox-llm/signalbox/router"
)

// The types of a Frame.
const (
	FrameStart = "start" // a request was sent to an upstream for the first time
	FrameEnd   = "end"   // a request is over, also one that was refused and so had no start
	FrameGap   = "gap"   // frames are missing here; only Reason says more
)

// Why there is a gap.
const (
	GapDropped   = "dropped"   // they were not kept until they were asked for
	GapRestarted = "restarted" // the process that sent the frames before is not this one
	GapSlow      = "slow"      // they were not read in time
)

// Frame is one thing that happened to a request, as people follow it. What is not known is absent, numbers too.
type Frame struct {
	ID            uint64    `json:"id"` // grows with every frame of a process
	Type          string    `json:"type"`
	Call          string    `json:"call"`
	TraceID       string    `json:"trace_id,omitempty"`
	At            time.Time `json:"at"`
	Wire          string    `json:"wire"`
	Path          string    `json:"path"` // a constant of the wire
	Model         string    `json:"model,omitempty"`
	Key           string    `json:"key,omitempty"`     // the name of the caller's key
	Client        string    `json:"client,omitempty"`  // type of the agent
	Session       string    `json:"session,omitempty"` // hash of the session's key
	Kind          string    `json:"kind"`              // why the first target tried was chosen
	Upstream      string    `json:"upstream,omitempty"`
	Index         *int      `json:"index,omitempty"` // of the upstream in the configuration
	UpstreamModel string    `json:"upstream_model,omitempty"`
	Status        int       `json:"status,omitempty"`
	Outcome       string    `json:"outcome,omitempty"`
	ErrorClass    string    `json:"error_class,omitempty"`
	Attempts      *int      `json:"attempts,omitempty"`
	Stream        bool      `json:"stream"`
	DurationMS    *float64  `json:"duration_ms,omitempty"`
	FirstChunkMS  *float64  `json:"first_chunk_ms,omitempty"`

	// What the attempt that ended the request used. Input includes what was read from a cache.
	InputTokens     *int64   `json:"input_tokens,omitempty"`
	CacheReadTokens *int64   `json:"cache_read_tokens,omitempty"`
	OutputTokens    *int64   `json:"output_tokens,omitempty"`
	CostUSD         *float64 `json:"cost_usd,omitempty"`

	Reason string `json:"reason,omitempty"` // of a gap
}

// gap is a frame that says that others are missing. It tells no request's, so it is sent in a shape of its own.
func gap(reason string) Frame { return Frame{Type: FrameGap, Reason: reason} }

// newFrame is what there is to see of an event.
func newFrame(id uint64, e *router.Event) Frame {
	f := Frame{
		ID: id, Type: FrameStart, Call: e.Call, TraceID: e.TraceID, At: e.Time, Wire: e.Wire, Path: e.Route, Model: e.Model, Key: e.Key,
		Client: e.Client, Session: e.Session, Kind: e.Decision, Upstream: e.Upstream, UpstreamModel: e.UpstreamModel, Stream: e.Stream,
	}
	if e.Index >= 0 {
		f.Index = new(e.Index)
	}
	if e.Phase != router.PhaseCompleted {
		return f
	}
	f.Type, f.Status, f.Outcome, f.ErrorClass, f.Attempts = FrameEnd, e.Status, e.Outcome, e.ErrorClass, new(e.Attempts)
	f.DurationMS, f.InputTokens = new(milliseconds(e.Duration)), reported(e.Usage.TotalInput())
	f.CacheReadTokens, f.OutputTokens = reported(e.Usage.CacheRead), reported(e.Usage.Output)
	if e.FirstChunk > 0 {
		f.FirstChunkMS = new(milliseconds(e.FirstChunk))
	}
	if e.Cost.Known {
		f.CostUSD = new(e.Cost.USD)
	}
	return f
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// reported is a number of tokens, nil for one that nobody reported.
func reported(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}
