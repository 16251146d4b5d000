package main

import (
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

func TestRemoteTakesTheBestKey(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "key")
	write(t, file, "key-of-file\n")
	var shown string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		shown = req.Header.Get("Authorization")
		_, _ = io.WriteString(w, req.Method+" "+req.URL.String())
	}))
	defer server.Close()
	for _, c := range []struct {
		name        string
		admin       bool
		key, master string
		args        []string
		want        string
	}{
		{"none", false, "", "", nil, ""},
		{"inference", false, "key-of-agent", "key-of-ops", nil, "Bearer key-of-agent"},
		{"admin", true, "key-of-agent", "key-of-ops", nil, "Bearer key-of-ops"},
		{"admin may do what inference may", false, "", "key-of-ops", nil, "Bearer key-of-ops"},
		{"one key for all", true, "key-of-agent", "", nil, "Bearer key-of-agent"},
		{"a file counts most", true, "key-of-agent", "key-of-ops", []string{"-key-file", file}, "Bearer key-of-file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("SIGNALBOX_URL", server.URL+"/")
			t.Setenv("SIGNALBOX_KEY", c.key)
			t.Setenv("SIGNALBOX_ADMIN_KEY", c.master)
			r := newRemote(c.admin)
			f := flag.NewFlagSet("", flag.ContinueOnError)
			r.flags(f)
			if err := f.Parse(c.args); err != nil {
				t.Fatal(err)
			}
			answer, err := r.ask(t.Context(), http.MethodGet, "/usage?since=1h", nil)
			if err != nil || string(answer) != "GET /usage?since=1h" || shown != c.want {
				t.Errorf("%q %v, shown %q, want %q", answer, err, shown, c.want)
			}
		})
	}
}

func TestRemoteSaysWhatIsWrong(t *testing.T) {
	t.Setenv("SIGNALBOX_KEY", "")
	t.Setenv("SIGNALBOX_ADMIN_KEY", "")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/401":
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":{"message":"no key given","code":"unauthorized"}}`)
		case "/403":
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"error":{"message":"not for you","code":"forbidden"}}`)
		case "/404":
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"error":{"message":"no such path","code":"unsupported_endpoint"}}`)
		case "/names":
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"error":{"message":"what does: \u001b[31mred\n","code":"not_found"}}`)
		default:
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, c := range []struct{ url, path, keyFile, want string }{
		{server.URL, "/401", "", "401 unauthorized: no key given; this command takes its key from the file of -key-file, else from SIGNALBOX_ADMIN_KEY, else SIGNALBOX_KEY of the environment, not from .env"},
		{server.URL, "/403", "", "403 forbidden: not for you; this command takes its key from"},
		{server.URL, "/404", "", "it is there that this is answered"},
		{server.URL, "/names", "", "404 not_found: what does: ?[31mred?"},
		{server.URL, "/", "", "502 Bad Gateway; is there a Signalbox"},
		{gone.URL, "/", "", "no Signalbox is running there"},
		{server.URL, "/", filepath.Join(t.TempDir(), "none"), "no such file"},
		{"http://user:hunter2@127.0.0.1:1", "/", "", "no Signalbox is running there"},
	} {
		r := &remote{url: c.url, keyFile: c.keyFile, admin: true}
		_, err := r.ask(t.Context(), http.MethodPost, c.path, []byte("{}"))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s%s: %v, want %q", c.url, c.path, err, c.want)
		}
	}
	server.Close()
}
