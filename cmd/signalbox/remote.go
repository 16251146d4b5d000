package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/signalbox-llm/signalbox/cmd/internal/live"
)

// remote is a running router that a command asks. Its key comes from a file or the environment, never from an argument,
// which everybody on the machine could read.
type remote struct {
	url     string
	keyFile string
	admin   bool // the command orders or reads what an admin key is needed for
}

// remoteLimit is how long one question may take, and remoteSize how many bytes the answer may have.
const (
	remoteLimit = 30 * time.Second
	remoteSize  = 64 << 20
)

// newRemote returns the router on this machine, or the one that SIGNALBOX_URL names.
func newRemote(admin bool) *remote {
	r := &remote{url: os.Getenv("SIGNALBOX_URL"), admin: admin}
	if r.url == "" {
		r.url = "http://127.0.0.1:4141"
	}
	return r
}

// flags defines -url and -key-file.
func (r *remote) flags(f *flag.FlagSet) {
	what := "the running router's `URL`, else SIGNALBOX_URL"
	if r.admin {
		what += "; of its admin_listen, if it has one"
	}
	f.StringVar(&r.url, "url", r.url, what)
	f.StringVar(&r.keyFile, "key-file", "", "read the key from this `file`; without it from "+strings.Join(r.variables(), " or "))
}

// variables are where the key is looked for, best first. An admin key may do what an inference key may.
func (r *remote) variables() []string {
	if r.admin {
		return []string{"SIGNALBOX_ADMIN_KEY", "SIGNALBOX_KEY"}
	}
	return []string{"SIGNALBOX_KEY", "SIGNALBOX_ADMIN_KEY"}
}

// key is what the router is shown; empty if there is none.
func (r *remote) key() (string, error) {
	if r.keyFile != "" {
		raw, err := os.ReadFile(r.keyFile)
		return strings.TrimSpace(string(raw)), err
	}
	for _, name := range r.variables() {
		if key := os.Getenv(name); key != "" {
			return key, nil
		}
	}
	return "", nil
}

// ask puts one question and reads the whole answer; path may have a query, and a body (nil: none) is JSON. Whatever is no
// success is an error that says what to do.
func (r *remote) ask(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, remoteLimit)
	defer cancel()
	resp, err := r.open(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, remoteSize+1))
	if err == nil && len(answer) > remoteSize {
		err = errors.New("the answer is too long")
	}
	return answer, err
}

// open puts one question whose answer is a stream, which the caller closes; it lasts for as long as ctx.
func (r *remote) open(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	var content io.Reader // a nil *bytes.Reader would be none
	if body != nil {
		content = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(r.url, "/")+path, content)
	if err != nil {
		return nil, usageError{err}
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	key, err := r.key()
	if err != nil {
		return nil, err
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, r.unreached(err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer resp.Body.Close()
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // the status says enough
		return nil, r.refusal(resp.StatusCode, said)
	}
	return resp, nil
}

// unreached says why there is no answer.
func (r *remote) unreached(err error) error {
	if wrong, ok := errors.AsType[*url.Error](err); ok {
		err = wrong.Err // without the URL, which may have a password in it
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%w: no Signalbox is running there; start one with signalbox serve, or say where it is with -url or SIGNALBOX_URL", err)
	}
	return err
}

// refusal is what a router said instead of an answer.
func (r *remote) refusal(status int, body []byte) error {
	var said struct {
		Error struct {
			Message string `json:"message"`
			Code    string `json:"code"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &said) != nil || said.Error.Message == "" {
		return fmt.Errorf("the answer is %d %s; is there a Signalbox at that address?", status, http.StatusText(status))
	}
	msg := fmt.Sprintf("%d %s: %s", status, said.Error.Code, said.Error.Message)
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		msg += "; this command takes its key from the file of -key-file, else from " + strings.Join(r.variables(), ", else ") +
			" of the environment, not from .env or the managed secrets"
	case http.StatusNotFound:
		if r.admin && said.Error.Code == "unsupported_endpoint" {
			msg += "; if the configuration has admin_listen, it is there that this is answered"
		}
	}
	return errors.New(live.Printable(msg)) // it may repeat names that clients have made up
}
