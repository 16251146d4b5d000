package config

import (
	"reflect"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/signalbox-llm/signalbox/router/settings"
)

// freshFrom has what a block starts from when it is met; a block that is not in here starts from nothing. What a file has
// at most once and always, such as the server block, starts from the template's Config.
func freshFrom(t *settings.Template) map[reflect.Type]any {
	return map[reflect.Type]any{
		reflect.TypeFor[settings.Key]():         t.Key,
		reflect.TypeFor[settings.Upstream]():    t.Upstream,
		reflect.TypeFor[settings.HealthCheck](): t.HealthCheck,
		reflect.TypeFor[settings.Model]():       t.Model,
		reflect.TypeFor[settings.Target]():      t.Target,
		reflect.TypeFor[settings.Preset]():      t.Preset,
		reflect.TypeFor[settings.UsageStore]():  t.UsageStore,
	}
}

// decoder fills structs by their hcl tags. It collects diagnostics and remembers where each field stands in the file.
type decoder struct {
	ctx    *hcl.EvalContext
	fresh  map[reflect.Type]any // by the type of a block
	diags  hcl.Diagnostics
	ranges map[string]hcl.Range // by the paths that settings.Problem uses
	failed map[string]bool      // paths that could not be read: what their values mean is not to be judged
}

// field is one tagged field of a struct.
type field struct {
	name, kind string // kind: optional (an attribute), label or block
	value      reflect.Value
}

func reflectOf(p any) reflect.Value { return reflect.ValueOf(p).Elem() }

// fieldsOf lists the tagged fields of a struct and of those squashed into it.
func fieldsOf(v reflect.Value) []field {
	list := make([]field, 0, v.NumField())
	for i := range v.NumField() {
		tag, ok := v.Type().Field(i).Tag.Lookup("hcl")
		if !ok {
			continue
		}
		name, kind, _ := strings.Cut(tag, ",")
		if kind == "squash" {
			list = append(list, fieldsOf(v.Field(i))...)
			continue
		}
		list = append(list, field{name, kind, v.Field(i)})
	}
	return list
}

// schemaOf lists what may stand in a body.
func schemaOf(fields []field) *hcl.BodySchema {
	s := &hcl.BodySchema{}
	for _, f := range fields {
		switch f.kind {
		case "label":
		case "block":
			s.Blocks = append(s.Blocks, hcl.BlockHeaderSchema{Type: f.name, LabelNames: labelsOf(f.value.Type())})
		default:
			s.Attributes = append(s.Attributes, hcl.AttributeSchema{Name: f.name})
		}
	}
	return s
}

// labelsOf names the labels of a block whose field has type t.
func labelsOf(t reflect.Type) (labels []string) {
	if t.Kind() != reflect.Struct {
		t = t.Elem()
	}
	for f := range t.Fields() {
		if name, ok := strings.CutSuffix(f.Tag.Get("hcl"), ",label"); ok {
			labels = append(labels, name)
		}
	}
	return labels
}

// body fills the struct v from the body of the given block; the body of the file has no block.
func (d *decoder) body(body hcl.Body, block *hcl.Block, v reflect.Value, path string) {
	fields := fieldsOf(v)
	content, diags := body.Content(schemaOf(fields))
	d.report(path, diags)
	label := 0
	for _, f := range fields {
		at := join(path, f.name)
		switch f.kind {
		case "label":
			f.value.SetString(block.Labels[label])
			d.ranges[at] = block.LabelRanges[label]
			label++
		case "block":
			d.blocks(content.Blocks.OfType(f.name), f.value, at)
		default:
			if a := content.Attributes[f.name]; a != nil {
				d.attribute(a, f.value, at)
			}
		}
	}
}

// blocks fills a field from all blocks of its type.
func (d *decoder) blocks(blocks hcl.Blocks, v reflect.Value, path string) {
	if v.Kind() == reflect.Slice {
		if len(blocks) > 0 {
			v.SetZero() // What the file has is all there is, not more of what a profile has.
		}
		for i, b := range blocks {
			element := d.begin(v.Type().Elem())
			d.block(b, element, path+"["+strconv.Itoa(i)+"]")
			v.Set(reflect.Append(v, element))
		}
		return
	}
	for i, b := range blocks {
		if i > 0 {
			d.fail(path, b.DefRange, "Duplicate "+b.Type+" block", "There is one already on line "+strconv.Itoa(blocks[0].DefRange.Start.Line)+".")
			continue
		}
		target := v
		if v.Kind() == reflect.Pointer {
			v.Set(d.begin(v.Type().Elem()).Addr())
			target = v.Elem()
		}
		d.block(b, target, path)
	}
}

func (d *decoder) block(b *hcl.Block, v reflect.Value, path string) {
	d.ranges[path] = b.DefRange
	d.body(b.Body, b, v, path)
}

// begin returns a new, addressable struct with its defaults.
func (d *decoder) begin(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	if value, ok := d.fresh[t]; ok {
		v.Set(reflect.ValueOf(value))
	}
	return v
}

// report takes over what is wrong with the structure of a body. A block of an unknown type or with wrong labels is lost.
func (d *decoder) report(path string, diags hcl.Diagnostics) {
	for _, diag := range diags {
		if diag.Summary != "Unsupported argument" {
			d.failed[path] = true
		}
		d.diags = append(d.diags, diag)
	}
}

func (d *decoder) fail(path string, at hcl.Range, summary, detail string) {
	d.failed[path] = true
	d.diags = append(d.diags, failure(at, summary, detail))
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
