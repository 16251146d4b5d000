package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/signalbox-llm/signalbox/router/secrets/keyring"
)

// keys lists, issues and revokes inference keys.
func keys(ctx context.Context, e env, args []string) error {
	r, group := newRemote(true), ""
	rest, err := parse(e, "keys", args, func(f *flag.FlagSet) {
		r.flags(f)
		f.StringVar(&group, "group", "", "issue: a `group` of the configuration, to whose upstreams the key is restricted")
	})
	if err != nil {
		return err
	}
	order := ""
	if len(rest) > 0 {
		order = rest[0]
	}
	switch {
	case order != "issue" && group != "":
		return usageError{errors.New("-group is for issue")}
	case len(rest) == 0, order == "list" && len(rest) == 1:
		return listKeys(ctx, e, r)
	case order == "issue" && len(rest) == 2:
		return issueKey(ctx, e, r, rest[1], group)
	case order == "revoke" && len(rest) == 2:
		return revokeKey(ctx, e, r, rest[1])
	}
	return usageError{errors.New("it is list, issue NAME or revoke ID")}
}

func listKeys(ctx context.Context, e env, r *remote) error {
	var answer struct {
		Keys []keyring.Key `json:"keys"`
	}
	if err := r.read(ctx, http.MethodGet, "/api/keys", nil, &answer); err != nil {
		return err
	}
	if len(answer.Keys) == 0 {
		_, err := fmt.Fprintln(e.stdout, "No key was issued yet. To make one: signalbox keys issue NAME")
		return err
	}
	rows := [][]cell{headings("ID", "NAME", "GROUP", "ISSUED", "STATE")}
	for _, k := range answer.Keys {
		state := cell{text: "works", colour: green}
		if k.Revoked {
			state = cell{text: "revoked", colour: dim}
		}
		rows = append(rows, []cell{{text: k.ID}, {text: k.Name}, {text: k.Group}, {text: k.CreatedAt.Local().Format(time.DateTime)}, state})
	}
	newPainter(e.stdout).table(rows)
	return nil
}

// issueKey writes the key alone to standard output, so that it can go where it belongs without a screen in between.
func issueKey(ctx context.Context, e env, r *remote, name, group string) error {
	body, err := json.Marshal(map[string]string{"name": name, "group": group})
	if err != nil {
		return err
	}
	var made struct {
		ID  string `json:"id"`
		Key string `json:"key"`
	}
	if err := r.read(ctx, http.MethodPost, "/api/keys", body, &made); err != nil {
		return err
	}
	fmt.Fprintf(e.stderr, "A key for %q is issued; it is shown this once. To take it back: signalbox keys revoke %s\n", name, made.ID)
	_, err = fmt.Fprintln(e.stdout, made.Key)
	return err
}

func revokeKey(ctx context.Context, e env, r *remote, id string) error {
	var k keyring.Key
	if err := r.read(ctx, http.MethodDelete, "/api/keys?id="+url.QueryEscape(id), nil, &k); err != nil {
		return err
	}
	_, err := fmt.Fprintf(e.stdout, "The key of %q is revoked for good. To make another one: signalbox keys issue %q\n", k.Name, k.Name)
	return err
}
