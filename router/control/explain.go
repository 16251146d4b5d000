package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/signalbox-llm/signalbox/router"
)

// question is a request that is asked about, as JSON.
type question struct {
	Path    string            `json:"path"`
	Headers map[string]values `json:"headers"`
	Body    json.RawMessage   `json:"body"`
}

// values are those of one header: a text, or a list of texts.
type values []string

// UnmarshalJSON implements json.Unmarshaler.
func (v *values) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*v = values{one}
		return nil
	}
	var all []string
	if err := json.Unmarshal(raw, &all); err != nil {
		return errors.New("a header is a string or a list of strings")
	}
	*v = all
	return nil
}

// explain answers where a request would go now; nothing is dispatched.
func (h *Handler) explain(w http.ResponseWriter, req *http.Request) {
	var asked question
	if !read(w, req, int64(h.engine.Snapshot().Server.MaxBody), &asked) {
		return
	}
	q, err := asked.request()
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	answer, refusal := h.engine.Explain(req.Context(), q)
	if refusal != nil {
		router.WriteError(w, refusal)
		return
	}
	reply(w, http.StatusOK, answer)
}

// ParseQuestion reads what POST /_router/explain takes. A body that is an object is kept byte for byte.
func ParseQuestion(raw []byte) (router.Question, error) {
	var asked question
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&asked); err != nil {
		return router.Question{}, err
	}
	return asked.request()
}

func (q *question) request() (router.Question, error) {
	if q.Path == "" {
		return router.Question{}, errors.New(`"path" is missing, such as "/v1/messages"`)
	}
	asked := router.Question{Path: q.Path, Header: http.Header{}, Body: q.Body}
	if len(q.Body) > 0 && q.Body[0] == '"' {
		var text string
		if err := json.Unmarshal(q.Body, &text); err != nil {
			return router.Question{}, fmt.Errorf(`"body": %w`, err)
		}
		asked.Body = []byte(text)
	}
	if len(asked.Body) == 0 {
		return router.Question{}, errors.New(`"body" is missing: the request's body, as an object or as a string`)
	}
	for name, values := range q.Headers {
		for _, v := range values {
			asked.Header.Add(name, v)
		}
	}
	return asked, nil
}

var _ json.Unmarshaler = (*values)(nil)
