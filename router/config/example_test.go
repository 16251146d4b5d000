package config

import (
	"bytes"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/signalbox-llm/signalbox/router/settings"
)

const exampleFile = "../../config.hcl.example"

// alike compares settings; empty and nil are the same.
var alike = cmp.Options{cmp.AllowUnexported(settings.Secret{}), cmpopts.EquateEmpty()}

func nothingSet(string) (string, bool) { return "", false }

func TestExampleIsAccepted(t *testing.T) {
	src, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	f, diags := Parse(src, exampleFile, nothingSet)
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	def := settings.Defaults()
	def.Upstreams, def.Models = f.Config.Upstreams, f.Config.Models
	if diff := cmp.Diff(def, f.Config, alike); diff != "" {
		t.Errorf("the example says other things than the defaults (-default +example):\n%s", diff)
	}
	u := settings.DefaultUpstream()
	o := f.Config.Upstreams[3]
	u.Name, u.BaseURL, u.Wires, u.APIKey, u.Auth = o.Name, o.BaseURL, o.Wires, o.APIKey, o.Auth
	if diff := cmp.Diff(u, o, alike); diff != "" {
		t.Errorf("upstream (-default +example):\n%s", diff)
	}
}

// TestExampleProposals takes what the example proposes at its word.
func TestExampleProposals(t *testing.T) {
	src, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	_, diags := Parse(bytes.ReplaceAll(src, []byte("#+"), nil), exampleFile, func(name string) (string, bool) {
		value, ok := map[string]string{"SIGNALBOX_LISTEN": "0.0.0.0:4141", "SIGNALBOX_KEY": "set", "SIGNALBOX_ADMIN_KEY": "set, too"}[name]
		return value, ok // nothing else is needed
	})
	if len(diags) > 0 {
		t.Error(diags)
	}
}

func TestExampleIsComplete(t *testing.T) {
	src, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	var look func(t reflect.Type)
	look = func(typ reflect.Type) {
		for _, f := range fieldsOf(reflect.New(typ).Elem()) {
			if f.kind == "label" {
				continue
			}
			if !regexp.MustCompile(`(?m)^[ #~+]*` + f.name + `\s*[={" ]`).Match(src) {
				t.Errorf("%s of %s is missing", f.name, typ.Name())
			}
			if f.kind == "block" {
				inner := f.value.Type()
				if inner.Kind() != reflect.Struct {
					inner = inner.Elem()
				}
				look(inner)
			}
		}
	}
	look(reflect.TypeFor[settings.Config]())
	for line := range strings.SplitSeq(string(src), "\n") {
		if len(line) > 130 {
			t.Errorf("long line: %s", line)
		}
	}
}

// TestFresh checks that every block that repeats, or is off unless present, starts from something, or from nothing on
// purpose.
func TestFresh(t *testing.T) {
	empty := map[string]bool{"Passthrough": true, "Group": true, "Client": true, "Price": true, "OffPeak": true}
	fresh := freshFrom(new(settings.Template))
	var look func(t reflect.Type)
	look = func(typ reflect.Type) {
		for _, f := range fieldsOf(reflect.New(typ).Elem()) {
			if f.kind != "block" {
				continue
			}
			inner := f.value.Type()
			if inner.Kind() != reflect.Struct {
				inner = inner.Elem()
				if _, ok := fresh[inner]; ok == empty[inner.Name()] {
					t.Errorf("%s: has defaults is %v", inner.Name(), ok)
				}
			}
			look(inner)
		}
	}
	look(reflect.TypeFor[settings.Config]())
}
