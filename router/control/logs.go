package control

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/signalbox-llm/signalbox/router"
)

const (
	heartbeat = 15 * time.Second // between signs of life of a stream on which nothing happens
	patience  = 30 * time.Second // that one write to a follower may take
	placeName = "Last-Event-ID"  // the header that says where in the feed a follower is
)

// recent lists the requests that have ended. The answer's Last-Event-ID is what a stream goes on from, so that nothing is
// missed between the two.
func (h *Handler) recent(w http.ResponseWriter, req *http.Request) {
	n := math.MaxInt
	if limit := req.URL.Query().Get("limit"); limit != "" {
		var err error
		if n, err = strconv.Atoi(limit); err != nil || n < 0 {
			refuse(w, http.StatusBadRequest, `"limit" must be a number of requests`)
			return
		}
	}
	frames, place := h.feed.recent(n)
	if place != "" {
		w.Header().Set(placeName, place)
	}
	reply(w, http.StatusOK, frames)
}

// stream sends what happens as server-sent events until the caller leaves or the server drains.
func (h *Handler) stream(w http.ResponseWriter, req *http.Request) {
	draining := h.feed.drain()
	select {
	case <-draining:
		router.WriteError(w, &router.Error{Kind: "draining", Status: http.StatusServiceUnavailable, Msg: "the router is about to end"})
		return
	default:
	}
	follower, place := h.feed.follow(req.Header.Get(placeName))
	defer follower.Close()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would hold small writes back
	s := sender{w: w, control: http.NewResponseController(w), place: place}
	defer s.control.SetWriteDeadline(time.Time{}) //nolint:errcheck // the connection may serve another request
	ok := s.send(h.feed, follower.Take())
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for ok {
		select {
		case <-req.Context().Done():
			return
		case <-draining:
			s.send(h.feed, follower.Take())
			return
		case <-tick.C:
			ok = s.write([]byte(":\n\n"))
		case <-follower.Ready():
			if frames := follower.Take(); len(frames) > 0 {
				ok = s.send(h.feed, frames)
			}
		}
	}
}

// sender writes frames to one caller.
type sender struct {
	w       http.ResponseWriter
	control *http.ResponseController
	place   string // where the caller is in the feed
}

// send writes frames, or if there are none, where the caller is. It returns false when the caller is gone.
func (s *sender) send(f *feed, frames []Frame) bool {
	var b bytes.Buffer
	for i := range frames {
		var data any = frames[i]
		if frames[i].Type == FrameGap {
			data = map[string]string{"type": FrameGap, "reason": frames[i].Reason}
		} else {
			s.place = f.place(frames[i].ID)
		}
		text, err := json.Marshal(data)
		if err != nil {
			return false
		}
		b.WriteString("id: " + s.place + "\nevent: " + frames[i].Type + "\ndata: ")
		b.Write(text)
		b.WriteString("\n\n")
	}
	if len(frames) == 0 {
		b.WriteString("id: " + s.place + "\n\n")
	}
	return s.write(b.Bytes())
}

func (s *sender) write(text []byte) bool {
	_ = s.control.SetWriteDeadline(time.Now().Add(patience)) // a writer without deadlines does not block either
	if _, err := s.w.Write(text); err != nil {
		return false
	}
	return s.control.Flush() == nil
}
