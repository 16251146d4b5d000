package live

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/signalbox-llm/signalbox/router/control"
)

const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
	silence    = 45 * time.Second // of a stream that sends a sign of life every 15 s: it is dead then
	maxFrame   = 1 << 20          // bytes of one line
)

// Tail shows the requests of a router elsewhere.
type Tail struct {
	// Open asks for a path of the control plane, going on from a place in its feed unless that is empty. An answer that is
	// no success is an error.
	Open func(ctx context.Context, path, place string) (*http.Response, error)
	// Final reports whether an error of Open will not go away by itself.
	Final func(error) bool
	// Show prints frames, and Say what happens to the connection.
	Show func(frames ...control.Frame)
	Say  func(text string)

	History       int // requests that are shown at first
	MaxReconnects int // in a row, each without any success; below 0: any number

	place string // in the feed, for going on
	begun bool   // the history was shown
}

// Run shows requests until ctx ends, which is no error, or there are no reconnects left.
func (t *Tail) Run(ctx context.Context) error {
	pause, tries := firstPause, 0
	for {
		connected, err := t.once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if t.Final(err) {
			return err
		}
		if connected {
			pause, tries = firstPause, 0
		}
		if t.MaxReconnects >= 0 && tries >= t.MaxReconnects {
			return fmt.Errorf("%w; given up after %d reconnects", err, tries)
		}
		tries++
		t.Say(fmt.Sprintf("-- not connected (%v); next try in %v --", err, pause))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, lastPause)
	}
}

// once shows the history if that was not done yet, and then the stream until that ends.
func (t *Tail) once(ctx context.Context) (connected bool, err error) {
	if !t.begun {
		if err := t.history(ctx); err != nil {
			return false, err
		}
		t.begun = true
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	alive := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer alive.Stop()
	resp, err := t.Open(ctx, "/_router/logs/stream", t.place)
	if err != nil {
		return false, because(ctx, err)
	}
	defer resp.Body.Close()
	r := bufio.NewScanner(resp.Body)
	r.Buffer(nil, maxFrame)
	place, kind, data := t.place, "", ""
	for r.Scan() {
		alive.Reset(silence)
		name, value, _ := strings.Cut(r.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case r.Text() == "":
			t.place = place
			t.event(kind, data)
			kind, data = "", ""
		case name == "id":
			place = value
		case name == "event":
			kind = value
		case name == "data":
			data = value
		}
	}
	if err = r.Err(); err == nil {
		err = errors.New("the router ended the stream")
	}
	return true, because(ctx, err)
}

var errSilent = errors.New("there was no sign of life")

// because prefers what a context was cancelled for to the error that followed from that.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
		return cause
	}
	return err
}

// history shows what has ended already. Where its answer says it ends, the stream begins.
func (t *Tail) history(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, silence, errSilent)
	defer cancel()
	resp, err := t.Open(ctx, fmt.Sprintf("/_router/logs/recent?limit=%d", t.History), "")
	if err != nil {
		return because(ctx, err)
	}
	defer resp.Body.Close()
	var frames []control.Frame
	if err := json.NewDecoder(io.LimitReader(resp.Body, 64<<20)).Decode(&frames); err != nil {
		return because(ctx, fmt.Errorf("the list of requests is not what it should be: %w", err))
	}
	slices.Reverse(frames)
	t.place = resp.Header.Get("Last-Event-ID")
	t.Show(frames...)
	return nil
}

// event shows one event of the stream. Those of types that are not known yet are passed over.
func (t *Tail) event(kind, data string) {
	switch kind {
	case control.FrameStart, control.FrameEnd, control.FrameGap:
	default:
		return
	}
	var f control.Frame
	if json.Unmarshal([]byte(data), &f) == nil {
		f.Type = kind
		t.Show(f)
	}
}
