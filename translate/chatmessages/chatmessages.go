// Package chatmessages turns OpenAI's chat completions into Anthropic's Messages and back, requests, answers and streams; it
// must not know how bytes travel, where they go, or what is counted and recorded.
package chatmessages

import (
	"bytes"
	"errors"

	"github.com/signalbox-llm/signalbox/translate/model"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// common is what both directions need of an exchange.
type common struct {
	opts   model.Options
	report model.Report
	tools  names
	facts  wire.Facts // Only the usage in it is read: it goes into the client's answer.
	ended  bool       // The client's stream has had its last event.
	failed bool       // That was an error.
	fault  wire.Failure
}

// Failed tells that the client's stream was ended with an error, and with which.
func (c *common) Failed() (wire.Failure, bool) { return c.fault, c.failed }

// fail ends the client's stream with an error.
func (c *common) fail(dst []byte, client *wire.Wire, e wire.Failure) []byte {
	c.ended, c.failed, c.fault = true, true, e
	return errorEvent(dst, client, e)
}

// Report tells what was left out or altered so far.
func (c *common) Report() model.Report { return c.report.Clone() }

// size is room enough for a translated request: quoting JSON takes one more byte for each quote and backslash in it, and
// everything else stays about as long as it was.
func size(body []byte) int {
	return len(body) + bytes.Count(body, []byte{'"'})/2 + bytes.Count(body, []byte{'\\'}) + 1<<10
}

var (
	chat     = wire.ByName(wire.Chat)
	messages = wire.ByName(wire.Messages)
)

var errEmpty = errors.New("messages is empty")

// elements reports whether raw is an array.
func elements(raw []byte) bool { return len(raw) > 0 && raw[0] == '[' }
