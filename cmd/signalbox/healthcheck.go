package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"time"
)

// healthcheck asks a running router whether it is ready, for container engines whose image has no other program.
func healthcheck(ctx context.Context, e env, args []string) error {
	rest, err := parse(e, "healthcheck", args, func(*flag.FlagSet) {})
	if err != nil {
		return err
	}
	url := "http://127.0.0.1:4141/readyz"
	switch len(rest) {
	case 0:
	case 1:
		url = rest[0]
	default:
		return usageError{errors.New("one URL at most")}
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return usageError{err}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", url, resp.Status)
	}
	_, err = fmt.Fprintln(e.stdout, "ready")
	return err
}
