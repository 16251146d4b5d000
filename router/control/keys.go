package control

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/secrets/keyring"
	"github.com/signalbox-llm/signalbox/router/settings"
)

// Keys issues inference keys.
type Keys interface {
	// Active reports whether there is a place for them.
	Active() bool
	// List returns all, revoked ones too, oldest first.
	List() []keyring.Key
	// Issue makes one; group, if not empty, restricts it. The errors are those of package keyring.
	Issue(name, group string) (key keyring.Key, secret string, err error)
	// Revoke makes one useless.
	Revoke(id string) (keyring.Key, error)
}

// issued hands f on while there are issued keys.
func (h *Handler) issued(f http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		if h.opts.Keys == nil || !h.opts.Keys.Active() {
			refuse(w, http.StatusNotFound, "keys cannot be issued here; issued_keys_file in the auth block turns it on")
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		f(w, req)
	}
}

func (h *Handler) listKeys(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, map[string]any{"keys": h.opts.Keys.List()})
}

// issueKey answers with the key, which nobody can see again.
func (h *Handler) issueKey(w http.ResponseWriter, req *http.Request) {
	var order struct {
		Name  string `json:"name"`
		Group string `json:"group"`
	}
	if !read(w, req, orderLimit, &order) {
		return
	}
	cfg := h.engine.Snapshot()
	groups := make([]string, len(cfg.Groups))
	for i := range groups {
		groups[i] = cfg.Groups[i].Name
	}
	switch {
	case order.Group != "" && !slices.Contains(groups, order.Group):
		refuse(w, http.StatusBadRequest, `"group" has to be a group of the configuration: `+names(groups))
		return
	case slices.ContainsFunc(cfg.Auth.Keys, func(k settings.Key) bool { return k.Name == order.Name }):
		h.keyError(w, keyring.ErrTaken)
		return
	}
	key, secret, err := h.opts.Keys.Issue(order.Name, order.Group)
	if err != nil {
		h.keyError(w, err)
		return
	}
	reply(w, http.StatusCreated, struct {
		keyring.Key
		Secret string `json:"key"`
	}{key, secret})
}

func (h *Handler) revokeKey(w http.ResponseWriter, req *http.Request) {
	id := req.URL.Query().Get("id")
	if id == "" {
		refuse(w, http.StatusBadRequest, "?id= is missing: that of the key, as GET /api/keys lists it")
		return
	}
	key, err := h.opts.Keys.Revoke(id)
	if err != nil {
		h.keyError(w, err)
		return
	}
	reply(w, http.StatusOK, key)
}

func (h *Handler) keyError(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, keyring.ErrName):
		refuse(w, http.StatusBadRequest, `"name": `+err.Error())
	case errors.Is(err, keyring.ErrUnknown):
		refuse(w, http.StatusNotFound, err.Error()+"; GET /api/keys lists them")
	case errors.Is(err, keyring.ErrTaken):
		router.WriteError(w, &router.Error{Kind: "conflict", Status: http.StatusConflict, Msg: err.Error() + "; take another one, or revoke that key first"})
	default: // the file cannot be written: only an operator can ask, and has to know why
		router.WriteError(w, &router.Error{Kind: "internal_error", Status: http.StatusInternalServerError, Msg: err.Error()})
	}
}

// namesMax is how many names one refusal lists: under a glob there may be thousands.
const namesMax = 30

// names lists what there is for people who have named something else.
func names(known []string) string {
	if len(known) == 0 {
		return "there is none"
	}
	if more := len(known) - namesMax; more > 0 {
		return strings.Join(known[:namesMax], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(known, ", ")
}

var _ Keys = (*keyring.Ring)(nil)
