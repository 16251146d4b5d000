package chatmessages

import (
	"bytes"

	"github.com/signalbox-llm/signalbox/translate/model"
)

// parts writes the content of a message as blocks. What marks the message for the cache marks its last block.
func (w *messagesTurns) parts(m *model.ChatMessage, note string) {
	last := -1
	for i := range m.Parts {
		if !model.Blank(m.Parts[i].Text) {
			last = i
		}
	}
	for i := range m.Parts {
		p := &m.Parts[i]
		switch {
		case !model.Blank(p.Text):
			cache := p.CacheControl
			if cache == nil && i == last {
				cache = m.CacheControl
			}
			w.text(p.Text, note, cache)
			note = ""
		case !model.Blank(p.Refusal):
			w.text(p.Refusal, note, p.CacheControl)
		case p.Source != nil && model.Is(p.Type, "image"):
			w.b = append(append(model.Elem(w.b), `{"type":"image","source":`...), p.Source...)
			w.b = append(model.Field(w.b, "cache_control", p.CacheControl), '}')
		case p.ImageURL != nil:
			w.image(p)
		case p.Text == nil && p.Refusal == nil:
			w.t.report.Drop("messages.content." + model.Text(p.Type))
			continue
		}
		w.t.report.DropExtra("messages.content.", p.Extra)
	}
}

func (w *messagesTurns) text(raw []byte, note string, cache []byte) {
	w.b = append(model.Elem(w.b), `{"type":"text","text":"`...)
	w.last.start = len(w.b)
	w.b = append(w.b, note...)
	w.b = append(w.b, model.Inner(raw)...)
	w.last.end = len(w.b)
	w.b = append(w.b, '"')
	w.b = append(model.Field(w.b, "cache_control", cache), '}')
	w.last.block = len(w.b)
}

// image writes an image block. Strings stay as they are written in the request, escapes and all.
func (w *messagesTurns) image(p *model.ChatPart) {
	url := model.Inner(p.ImageURL)
	data, inline := bytes.CutPrefix(url, []byte("data:"))
	if !inline {
		w.b = append(model.Elem(w.b), `{"type":"image","source":{"type":"url","url":`...)
		w.b = append(append(w.b, p.ImageURL...), '}')
		w.b = append(model.Field(w.b, "cache_control", p.CacheControl), '}')
		return
	}
	kind, data, ok := bytes.Cut(data, []byte(";base64,"))
	if !ok {
		w.t.report.Drop("messages.content.image_url")
		return
	}
	kind, _, _ = bytes.Cut(kind, []byte{';'})
	if string(kind) == "image/jpg" { // A name that is common and that no standard has.
		kind = []byte("image/jpeg")
	}
	w.b = append(model.Elem(w.b), `{"type":"image","source":{"type":"base64","media_type":"`...)
	w.b = append(append(w.b, kind...), `","data":"`...)
	w.b = append(append(w.b, data...), `"}`...)
	w.b = append(model.Field(w.b, "cache_control", p.CacheControl), '}')
}
