package control

import (
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/settings"
)

// never is when something comes back that only an operator can bring back: the largest number that JavaScript can count to.
const never = 1<<53 - 1

// healthReport is every declared account and target with its state, in the words of older dashboards.
type healthReport struct {
	OK       bool         `json:"ok"`
	Port     int          `json:"port,omitempty"`
	Backends []backendRow `json:"backends"`
	Routes   []routeRow   `json:"routes"`
}

type backendRow struct {
	ID            string            `json:"id"`
	State         string            `json:"state"`
	Fails         int               `json:"fails"`
	LastError     *router.LastError `json:"lastError"`
	Manual        bool              `json:"manual"`
	ProbeInFlight bool              `json:"probeInFlight"`
	Deployments   []deployment      `json:"deployments"`
}

// deployment is an upstream model and the models that lead to it.
type deployment struct {
	Upstream string   `json:"upstream"`
	Models   []string `json:"models"`
	State    string   `json:"state"`
}

// routeRow is one target. Its state is its own, but that an operator holds all of the account shows here too.
type routeRow struct {
	ID            string   `json:"id"` // of its backend
	Backend       string   `json:"backend"`
	Upstream      string   `json:"upstream"`
	Models        []string `json:"models"`
	State         string   `json:"state"`
	Fails         int      `json:"fails"`
	NextAvailable int64    `json:"nextAvailableAtMs"` // Unix time; 0 = now, never = when it is uncooled
	RetryIn       int64    `json:"retryInMs"`
	ProbeInFlight bool     `json:"probeInFlight"`
	LastErrorKind *string  `json:"lastErrorKind"`
	LastStatus    *int     `json:"lastStatus"`
	Manual        bool     `json:"manual"`
}

func (h *Handler) health(w http.ResponseWriter, _ *http.Request) {
	cfg := h.engine.Snapshot()
	report := healthReport{OK: true, Backends: []backendRow{}, Routes: []routeRow{}}
	if _, port, err := net.SplitHostPort(cfg.Server.Listen); err == nil {
		report.Port, _ = strconv.Atoi(port)
	}
	users := usersOf(&cfg)
	for _, u := range h.engine.Status().Upstreams {
		b := backendRow{
			ID: u.Name, State: u.State, Fails: u.Failures, LastError: u.LastError, Manual: u.Manual, ProbeInFlight: u.ProbeInFlight,
			Deployments: []deployment{},
		}
		for _, t := range withGlobs(&cfg, &u) {
			models := users[place{u.Name, t.Model}]
			if models == nil {
				models = []string{} // asked for by way of a glob
			}
			row := rowOf(&u, &t, models)
			report.Routes = append(report.Routes, row)
			b.Deployments = append(b.Deployments, deployment{t.Model, models, row.State})
		}
		report.Backends = append(report.Backends, b)
	}
	reply(w, http.StatusOK, report)
}

func rowOf(u *router.UpstreamStatus, t *router.TargetStatus, models []string) routeRow {
	r := routeRow{
		ID: u.Name, Backend: u.Name, Upstream: t.Model, Models: models, State: t.State, Fails: t.Failures,
		NextAvailable: unixMilli(t.Until), RetryIn: t.RemainingMS, ProbeInFlight: t.ProbeInFlight, Manual: t.Manual,
	}
	if u.Manual {
		r.State, r.Manual = u.State, true
		r.NextAvailable, r.RetryIn = max(r.NextAvailable, unixMilli(u.Until)), max(r.RetryIn, u.RemainingMS)
	}
	if u.Manual && u.RemainingMS < 0 || t.RemainingMS < 0 {
		r.NextAvailable, r.RetryIn = never, never
	}
	if e := t.LastError; e != nil {
		r.LastErrorKind, r.LastStatus = new(string(e.Reason)), new(e.Status)
	}
	return r
}

func unixMilli(t *time.Time) int64 {
	if t == nil {
		return 0
	}
	return t.UnixMilli()
}

// place is one upstream model at an account.
type place struct{ upstream, model string }

// usersOf says which models lead where.
func usersOf(cfg *settings.Config) map[place][]string {
	users := map[place][]string{}
	for _, m := range cfg.Models {
		for _, t := range m.Targets {
			at := place{t.Upstream, upstreamModel(&m, &t)}
			users[at] = append(users[at], m.ID)
		}
	}
	return users
}

// withGlobs adds the targets that have no model of their own until somebody asks for one.
func withGlobs(cfg *settings.Config, u *router.UpstreamStatus) []router.TargetStatus {
	targets := slices.Clone(u.Targets)
	for _, m := range cfg.Models {
		for _, t := range m.Targets {
			id := upstreamModel(&m, &t)
			known := func(o router.TargetStatus) bool { return o.Model == id }
			if t.Upstream == u.Name && !slices.ContainsFunc(targets, known) {
				targets = append(targets, router.TargetStatus{Model: id, State: "healthy"})
			}
		}
	}
	return targets
}

// upstreamModel is what a target asks for: under a glob without a model of its own, the glob.
func upstreamModel(m *settings.Model, t *settings.Target) string {
	if t.Model == "" {
		return m.ID
	}
	return t.Model
}
