// Package translate is the table of the pairs of dialects that can be turned into each other; it knows bytes in and bytes
// out, and must not know routing, HTTP or telemetry.
package translate

import (
	"slices"

	"github.com/signalbox-llm/signalbox/translate/chatmessages"
	"github.com/signalbox-llm/signalbox/translate/model"
	"github.com/signalbox-llm/signalbox/translate/sse"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// Options are what a translation has to know of the exchange.
type Options = model.Options

// Report names what a translation could not carry over.
type Report = model.Report

// Pair translates between the client's dialect and the upstream's.
type Pair struct {
	Client, Upstream wire.Name
	New              func(Options) Translation // One for each attempt: what a stream has said must not reach the next.
}

// Translation is one attempt of one exchange. It belongs to one goroutine.
type Translation interface {
	// Request turns the client's request into the upstream's. Layers, such as the target's model, are applied to what comes
	// out. The error says why the body cannot be read as the client's dialect; its text is meant for the client. Nothing points
	// into the body once Request has returned.
	Request(body []byte) ([]byte, error)

	// Response turns a whole answer of the upstream into the client's dialect. The error means that it is no such answer.
	Response(body []byte) ([]byte, error)

	// Event appends what the client gets for one event of the upstream: whole frames, or nothing. Comments and pings come
	// out as the client's own.
	Event(dst []byte, ev *sse.Event) []byte

	// End appends what has to follow when the upstream's stream is over; clean tells whether it was not broken off. If the
	// answer was not whole, that is an error event of the client's dialect; if it was, whatever is left to close it.
	End(dst []byte, clean bool) []byte

	// Failed tells that the client's stream was ended with an error, and with which.
	Failed() (wire.Failure, bool)

	// Error turns the body of an error answer into the client's dialect. The status stays as it is.
	Error(status int, body []byte) []byte

	// Report tells what was left out or altered so far.
	Report() Report
}

// pairs is the support matrix.
var pairs = []Pair{
	{wire.Chat, wire.Messages, func(o Options) Translation { return chatmessages.NewForChat(o) }},
	{wire.Messages, wire.Chat, func(o Options) Translation { return chatmessages.NewForMessages(o) }},
}

// Pairs lists all pairs.
func Pairs() []Pair { return slices.Clone(pairs) }

// Lookup returns the pair for a client's and an upstream's dialect, nil if there is none.
func Lookup(client, upstream wire.Name) *Pair {
	for i := range pairs {
		if pairs[i].Client == client && pairs[i].Upstream == upstream {
			return &pairs[i]
		}
	}
	return nil
}

var (
	_ Translation = (*chatmessages.ForChat)(nil)
	_ Translation = (*chatmessages.ForMessages)(nil)
)
