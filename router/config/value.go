package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/signalbox-llm/signalbox/router/settings"
)

// attribute evaluates an attribute and puts its value into v. Null leaves the default.
func (d *decoder) attribute(a *hcl.Attribute, v reflect.Value, path string) {
	d.ranges[path] = a.Range
	if items, diags := hcl.ExprList(a.Expr); !diags.HasErrors() {
		for i, item := range items {
			d.ranges[path+"["+strconv.Itoa(i)+"]"] = item.Range()
		}
	}
	value, diags := a.Expr.Value(d.ctx)
	d.diags = append(d.diags, diags...)
	if diags.HasErrors() || !value.IsWhollyKnown() { // Unknown is what a faulty local is; that has been reported.
		d.failed[path] = true
		return
	}
	if plain, _ := value.Unmark(); plain.IsNull() {
		return
	}
	if items, diags := hcl.ExprMap(a.Expr); !diags.HasErrors() {
		for _, item := range items {
			if name, diags := item.Key.Value(d.ctx); !diags.HasErrors() && isName(name) {
				d.ranges[path+"."+name.AsString()] = hcl.RangeBetween(item.Key.Range(), item.Value.Range())
			}
		}
	}
	if err := assign(v, value); err != nil {
		d.fail(path, a.Expr.Range(), "Invalid "+a.Name, upperFirst(err.Error())+".")
	}
}

func isName(v cty.Value) bool {
	return v.Type() == cty.String && !v.IsMarked() && v.IsKnown() && !v.IsNull()
}

// assign converts a value to the type of v. Its errors do not repeat the value, which may be a key.
func assign(v reflect.Value, value cty.Value) error {
	switch v.Interface().(type) {
	case settings.Secret:
		text, err := toText(value)
		if err == nil {
			v.Set(reflect.ValueOf(settings.NewSecret(text, originOf(value))))
		}
		return err
	case settings.Fields:
		fields, err := toFields(value)
		v.Set(reflect.ValueOf(fields))
		return err
	case settings.Size:
		n, err := toSize(value)
		v.SetInt(n)
		return err
	case time.Duration:
		t, err := toDuration(value)
		v.SetInt(int64(t))
		return err
	}
	switch v.Kind() {
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		v.Set(p)
		return assign(p.Elem(), value)
	case reflect.Slice:
		return assignList(v, value)
	case reflect.Map:
		return assignMap(v, value)
	}
	return assignPlain(v, value)
}

func assignPlain(v reflect.Value, value cty.Value) error {
	switch v.Kind() {
	case reflect.String:
		text, err := toText(value)
		v.SetString(text)
		return err
	case reflect.Bool:
		b, err := primitive(value, cty.Bool)
		if err != nil {
			return errors.New("it must be true or false")
		}
		v.SetBool(b.True())
	case reflect.Int:
		n, err := toNumber(value)
		if err != nil {
			return err
		}
		whole, accuracy := n.Int64()
		if accuracy != big.Exact || whole > math.MaxInt32 || whole < math.MinInt32 {
			return errors.New("it must be a whole number of up to ten digits")
		}
		v.SetInt(whole)
	case reflect.Float64:
		n, err := toNumber(value)
		if err != nil {
			return err
		}
		f, _ := n.Float64()
		v.SetFloat(f)
	default:
		panic("config: no way to read a " + v.Type().String())
	}
	return nil
}

func assignList(v reflect.Value, value cty.Value) error {
	value, _ = value.Unmark()
	if t := value.Type(); !t.IsTupleType() && !t.IsListType() && !t.IsSetType() {
		return errors.New(`it must be a list, such as ["a", "b"]`)
	}
	list := reflect.MakeSlice(v.Type(), 0, value.LengthInt())
	for it := value.ElementIterator(); it.Next(); {
		_, element := it.Element()
		e := reflect.New(v.Type().Elem()).Elem()
		if err := assign(e, element); err != nil {
			return fmt.Errorf("in the list: %w", err)
		}
		list = reflect.Append(list, e)
	}
	v.Set(list)
	return nil
}

func assignMap(v reflect.Value, value cty.Value) error {
	value, marks := value.Unmark()
	if t := value.Type(); !t.IsObjectType() && !t.IsMapType() {
		return errors.New("it must be an object, such as { name = value }")
	}
	m := reflect.MakeMap(v.Type())
	for it := value.ElementIterator(); it.Next(); {
		name, element := it.Element()
		e := reflect.New(v.Type().Elem()).Elem()
		if err := assign(e, element.WithMarks(marks)); err != nil {
			return fmt.Errorf("in the object: %w", err)
		}
		m.SetMapIndex(reflect.ValueOf(name.AsString()), e)
	}
	v.Set(m)
	return nil
}

// primitive converts to a string, number or bool.
func primitive(value cty.Value, t cty.Type) (cty.Value, error) {
	value, _ = value.Unmark()
	if value.IsNull() || !value.Type().IsPrimitiveType() || !sane(value) {
		return value, fmt.Errorf("it must be a %s", t.FriendlyName())
	}
	return convert.Convert(value, t)
}

// sane refuses numbers whose digits would fill the memory if they were written down.
func sane(value cty.Value) bool {
	return value.Type() != cty.Number || value.AsBigFloat().MantExp(nil) < 2048 && value.AsBigFloat().MantExp(nil) > -2048
}

func toText(value cty.Value) (string, error) {
	s, err := primitive(value, cty.String)
	if err != nil {
		return "", errors.New("it must be a string")
	}
	return s.AsString(), nil
}

func toNumber(value cty.Value) (*big.Float, error) {
	n, err := primitive(value, cty.Number)
	if err != nil {
		return nil, errors.New("it must be a number")
	}
	return n.AsBigFloat(), nil
}

func toDuration(value cty.Value) (time.Duration, error) {
	bad := errors.New(`it must be a duration in quotes with its unit, such as "30s", "5m" or "168h"`)
	text, err := toText(value)
	if err != nil {
		return 0, bad
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, bad
	}
	return d, nil
}

// units are what a size can end with, longer ones first.
var units = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}, {"", 1}}

func toSize(value cty.Value) (int64, error) {
	bad := errors.New(`it must be a number of bytes or a size in quotes, such as "32MiB"`)
	text, err := toText(value)
	if err != nil {
		return 0, bad
	}
	for _, u := range units {
		digits, ok := strings.CutSuffix(text, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n > math.MaxInt64/u.bytes || n < math.MinInt64/u.bytes {
			return 0, bad
		}
		return n * u.bytes, nil
	}
	return 0, bad
}

// toFields keeps the members of an object as JSON, numbers with all their digits.
func toFields(value cty.Value) (settings.Fields, error) {
	value, _ = value.UnmarkDeep()
	if t := value.Type(); !t.IsObjectType() && !t.IsMapType() {
		return nil, errors.New("it must be an object, such as { temperature = 0.2 }")
	}
	huge := errors.New("it has a number that is too large or too small")
	if cty.Walk(value, func(_ cty.Path, v cty.Value) (bool, error) {
		if !v.IsNull() && !sane(v) {
			return false, huge
		}
		return true, nil
	}) != nil {
		return nil, huge
	}
	fields := settings.Fields{}
	for it := value.ElementIterator(); it.Next(); {
		name, element := it.Element()
		raw, err := ctyjson.Marshal(element, element.Type())
		if err != nil {
			return nil, errors.New("it cannot be written as JSON")
		}
		fields[name.AsString()] = json.RawMessage(raw)
	}
	return fields, nil
}

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
