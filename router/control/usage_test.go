package control_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/signalbox-llm/signalbox/router/control"
	"github.com/signalbox-llm/signalbox/router/ledger"
)

// book is a store that remembers what it was asked.
type book struct {
	asked []ledger.Question
	err   error
}

func (b *book) Ask(_ context.Context, q ledger.Question) (*ledger.Answer, error) {
	b.asked = append(b.asked, q)
	return &ledger.Answer{GroupBy: q.GroupBy, Groups: []ledger.Group{{Key: map[string]string{"model": "m"}, Sums: ledger.Sums{Requests: 2, Cost: 0.5}}}}, b.err
}

func TestUsage(t *testing.T) {
	d, b := open(t), &book{}
	if status, got := d.ask("agents", http.MethodGet, "/usage", ""); status != http.StatusNotFound || code(got) != "usage_store_disabled" {
		t.Errorf("without a store: %d %v", status, got)
	}
	d.plane = control.New(d.engine, control.Options{Usage: b, Logger: slog.New(slog.DiscardHandler)})
	for _, c := range []struct {
		key, query string
		status     int
		want       string
	}{
		{"", "", http.StatusUnauthorized, "no key given"},
		{"agents", "", http.StatusOK, ""},
		{"ops", "?group_by=model&since=7d&key=alice&format=json", http.StatusOK, ""},
		{"agents", "?group_by=colour", http.StatusBadRequest, `"group_by" must be`},
		{"agents", "?colour=red", http.StatusBadRequest, `"colour" is not known here`},
		{"agents", "?since=soon", http.StatusBadRequest, `"since" must be`},
		{"agents", "?format=xml", http.StatusBadRequest, `"format" must be`},
	} {
		b.asked = nil
		status, got := d.ask(c.key, http.MethodGet, "/usage"+c.query, "")
		if status != c.status || !strings.Contains(message(got), c.want) || len(b.asked) > 0 != (status == http.StatusOK) {
			t.Errorf("%s %s: %d %v, asked %v", c.key, c.query, status, got, b.asked)
		}
	}
	b.asked = nil
	if status, _ := d.ask("?agents", http.MethodGet, "/usage", ""); status != http.StatusOK || len(b.asked) != 1 || len(b.asked[0].Filters) > 0 {
		t.Errorf("a key in the query is taken for a filter: %d %+v", status, b.asked)
	}
	b.err = errors.New("password hunter2")
	if status, got := d.ask("agents", http.MethodGet, "/usage", ""); status != http.StatusServiceUnavailable || strings.Contains(message(got), "hunter2") {
		t.Errorf("a store that fails: %d %v", status, got)
	}
	b.err = nil
	req, rec := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/usage?format=csv&group_by=model", nil), httptest.NewRecorder()
	req.Header.Set("X-Api-Key", "key-of-agents")
	d.plane.ServeHTTP(rec, req)
	if kind := rec.Header().Get("Content-Type"); !strings.HasPrefix(kind, "text/csv") || !strings.HasPrefix(rec.Body.String(), "model,requests,") || !strings.Contains(rec.Body.String(), "\nm,2,") {
		t.Errorf("%s %s", kind, rec.Body)
	}
}

// code and message are those of an error's envelope.
func code(got map[string]any) string    { return text(got, "code") }
func message(got map[string]any) string { return text(got, "message") }

func text(got map[string]any, name string) string {
	e, _ := got["error"].(map[string]any)
	s, _ := e[name].(string)
	return s
}
