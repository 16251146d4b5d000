// Command smoke looks at a running sidecar and says in a line each whether it lives, is ready and has upstreams that are
// well; it must not change anything there.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

func main() {
	url := flag.String("url", "http://127.0.0.1:4141", "the sidecar's `URL`; of its admin_listen, if it has one")
	flag.Parse()
	key := os.Getenv("SIGNALBOX_ADMIN_KEY")
	if key == "" {
		key = os.Getenv("SIGNALBOX_KEY")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	ok := smoke(ctx, os.Stdout, strings.TrimSuffix(*url, "/"), key)
	cancel()
	if !ok {
		os.Exit(1) //nolint:forbidigo // this is func main
	}
}

// smoke asks each path, all of them even if one fails.
func smoke(ctx context.Context, w io.Writer, url, key string) bool {
	well := true
	for _, c := range []struct {
		path, key string
		says      func(body []byte) (string, error)
	}{
		{"/healthz", "", simple},
		{"/readyz", "", simple},
		{"/_router/status", key, status},
	} {
		said, err := ask(ctx, url+c.path, c.key, c.says)
		word := "ok  "
		if err != nil {
			word, said, well = "FAIL", err.Error(), false
		}
		fmt.Fprintf(w, "%s  %-16s %s\n", word, c.path, said)
	}
	return well
}

func ask(ctx context.Context, url, key string, says func([]byte) (string, error)) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	switch {
	case err != nil:
		return "", err
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return "", fmt.Errorf("%s; the key is taken from SIGNALBOX_ADMIN_KEY, else SIGNALBOX_KEY", resp.Status)
	case resp.StatusCode != http.StatusOK:
		return "", errors.New(resp.Status)
	}
	return says(body)
}

// simple reads the answer of a probe.
func simple(body []byte) (string, error) {
	var a struct {
		Status string `json:"status"`
	}
	if err := json.Unmarshal(body, &a); err != nil || a.Status == "" {
		return "", errors.New("the answer is not that of a Signalbox")
	}
	return a.Status, nil
}

// status counts the upstreams, and wants one that is well.
func status(body []byte) (string, error) {
	var a struct {
		Revision  int `json:"config_revision"`
		InFlight  int `json:"in_flight"`
		Upstreams []struct{ Name, State, Reason string }
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return "", errors.New("the answer is not that of a Signalbox")
	}
	var out []string
	for _, u := range a.Upstreams {
		if u.State != "healthy" {
			out = append(out, strings.TrimSpace(u.Name+" "+u.State+" "+u.Reason))
		}
	}
	said := fmt.Sprintf("revision %d, %d in flight, %d of %d upstreams healthy", a.Revision, a.InFlight, len(a.Upstreams)-len(out), len(a.Upstreams))
	if len(out) > 0 {
		said += ": " + strings.Join(out, ", ")
	}
	if len(out) == len(a.Upstreams) {
		return "", errors.New(said)
	}
	return said, nil
}
