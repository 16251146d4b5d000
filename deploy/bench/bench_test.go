package main

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestQuantilesAreTrue(t *testing.T) {
	t.Parallel()
	h := &hist{}
	r := rand.New(rand.NewPCG(1, 2))
	var all []time.Duration
	for range 100_000 {
		d := time.Duration(math.Exp(r.NormFloat64()*2 + 10))
		all = append(all, d)
		h.add(d)
	}
	slices.Sort(all)
	for _, p := range []float64{0.01, 0.5, 0.95, 0.99, 0.999} {
		want := float64(all[int(p*float64(len(all)))])
		if got := float64(h.quantile(p)); math.Abs(got-want)/want > 0.01 {
			t.Errorf("quantile %v is %v, want %v", p, got, want)
		}
	}
	for _, v := range []int64{0, 1, 127, 128, 255, 256, 1 << 20, 1<<40 + 12345} {
		if got := bucketValue(bucket(v)); math.Abs(float64(got-v)) > 0.008*float64(v)+1 {
			t.Errorf("the bucket of %d stands for %d", v, got)
		}
	}
}

func TestBodiesAreWhatAnAgentSends(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1 << 10, 64 << 10, 200 << 10, 2 << 20} {
		b := makeBody("m", true, size)
		var body struct {
			Model    string
			Stream   bool
			Messages []any
		}
		if err := json.Unmarshal(b, &body); err != nil {
			t.Fatal(err)
		}
		if body.Model != "m" || !body.Stream || len(body.Messages) < 2 {
			t.Errorf("%d bytes: model %q, stream %v, %d messages", size, body.Model, body.Stream, len(body.Messages))
		}
		if off := math.Abs(float64(len(b)-size)) / float64(size); off > 0.2 {
			t.Errorf("%d bytes wanted, %d made", size, len(b))
		}
		if bytes.Count(b, []byte(nonceTag)) != 1 || bytes.IndexByte(b, '~') >= 0 {
			t.Errorf("%d bytes: not one nonce, or something like a mark", size)
		}
	}
}

// rig is a fleet of one upstream inside of the test.
func rig(t *testing.T) (*fleet, subject) {
	t.Helper()
	u := &upstream{}
	b, err := parseBehaviour("")
	if err != nil {
		t.Fatal(err)
	}
	u.is.Store(b)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go accept(l, u.serve)
	control := httptest.NewServer(u.control())
	t.Cleanup(control.Close)
	f := &fleet{client: control.Client(), controls: []string{control.Listener.Addr().String()}}
	return f, subject{name: "upstream", address: l.Addr().String(), model: "fake-1"}
}

func TestEveryAnswerIsLookedAt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, upstream string
		chunks         int // expected
		fault          string
	}{
		{"plain", "", 0, ""},
		{"stream", "chunks=10", 10, ""},
		{"limited", "mode=429", 0, "status-429"},
		{"failed", "mode=500", 10, "status-500"},
		{"too few", "chunks=9", 10, "9-chunks-of-10"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f, s := rig(t)
			sc := scenario{name: c.name, size: 5000, workers: 4, chunks: c.chunks, sessions: 3, total: 40, measured: time.Minute, upstream: []string{c.upstream}}
			r, err := f.measure(t.Context(), s, sc)
			if err != nil {
				t.Fatal(err)
			}
			if c.fault == "" && (r.good != sc.total || r.failed() != 0) || c.fault != "" && (r.faults[c.fault] != sc.total || r.good != 0) {
				t.Errorf("%d good answers, faults %v; want %q", r.good, r.faults, c.fault)
			}
			if n, err := f.asked(t.Context(), 0); err != nil || n != int(sc.total) {
				t.Errorf("the upstream counted %d (%v)", n, err)
			}
		})
	}
}

// A mark that comes in two reads, or more, counts as one.
func TestMarksMayBeCut(t *testing.T) {
	t.Parallel()
	chunk := make([]byte, markLength)
	putMark(chunk, time.Unix(1_700_000_000, 42))
	text := "data: " + strings.Repeat(string(chunk)+" and so on\n", 3) + "data: [DONE]\n\n"
	for size := 1; size <= len(text); size++ {
		w := &worker{chunks: 3, seen: &records{}, conn: &wireConn{}}
		a := answered{worker: w}
		for part := range slices.Chunk([]byte(text), size) {
			a.take(part)
		}
		if fault := a.fault(200); fault != "" {
			t.Errorf("read by %d: %s", size, fault)
		}
	}
}

// What an upstream never answers must not keep a measurement from ending.
func TestMeasurementsEnd(t *testing.T) {
	t.Parallel()
	f, s := rig(t)
	r, err := f.measure(t.Context(), s, scenario{size: 600, workers: 2, measured: 10 * time.Millisecond, upstream: []string{"mode=hang"}})
	if err != nil || r.good != 0 || r.failed() != 0 {
		t.Errorf("%d answers, faults %v, %v", r.good, r.faults, err)
	}
}

func TestRatiosAreTakenWithinARound(t *testing.T) {
	t.Parallel()
	var all []result
	for round, busy := range []time.Duration{1, 10, 2} { // what else runs makes both dearer
		for name, cost := range map[string]time.Duration{reverseProxy: 100, telemetryOn: 130} {
			all = append(all, result{subject: name, scenario: "small-64", round: round, requests: 1, cpu: cost * busy * time.Microsecond, took: time.Second})
		}
	}
	wanted, err := pick("small-64", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	got := comparison(wanted, all, nil)
	if !strings.Contains(got, "| 1.30 ") || !strings.Contains(got, "| 260 µs ") {
		t.Errorf("no ratio of 1.30 or median of 260 µs in\n%s", got)
	}
	for _, c := range ratios(all) {
		if c.ok {
			t.Errorf("%+v passes", c)
		}
	}
	if _, err := pick("smal-64", time.Second); err == nil {
		t.Error("a scenario that is not there is picked")
	}
}

func TestConfigurationsAreWhole(t *testing.T) {
	t.Parallel()
	got := setup{name: "x", telemetry: true, upstreams: []string{"127.0.0.1:1", "127.0.0.1:2"}, models: 3, keys: 2, firstByte: 300 * time.Millisecond, extra: again}.
		write("127.0.0.1:9", "127.0.0.1:8")
	for text, n := range map[string]int{"upstream \"": 2, "model \"": 3, "target \"": 6, "key \"": 4, "first_byte = \"300ms\"": 2, "endpoint": 1, "cooling": 1} {
		if strings.Count(got, text) != n {
			t.Errorf("%q is not there %d times in\n%s", text, n, got)
		}
	}
}
