package keyring

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// bench is a ring with a clock and a log of its own.
type bench struct {
	*Ring
	t    testing.TB
	path string
	now  time.Time
	log  bytes.Buffer
}

func newBench(t testing.TB) *bench {
	t.Helper()
	b := &bench{t: t, path: filepath.Join(t.TempDir(), "keys.json"), now: time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)}
	b.Ring = b.replica()
	return b
}

// replica is another ring on the same file.
func (b *bench) replica() *Ring {
	b.t.Helper()
	r := New(func() time.Time { return b.now }, slog.New(slog.NewTextHandler(&b.log, nil)))
	if err := r.Use(b.path); err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *bench) issue(name string) (Key, string) {
	b.t.Helper()
	k, secret, err := b.Issue(name, "")
	if err != nil {
		b.t.Fatal(err)
	}
	return k, secret
}

// edit writes the file as an editor does.
func (b *bench) edit(old, text string) {
	b.t.Helper()
	raw, err := os.ReadFile(b.path)
	if err == nil {
		err = os.WriteFile(b.path, []byte(strings.ReplaceAll(string(raw), old, text)), 0o600)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

func found(r *Ring, secret string) string {
	name, _, _ := r.Find(secret)
	return name
}

func TestIssueAndRevoke(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	k, secret, err := b.Issue("laptop", "team")
	if err != nil {
		t.Fatal(err)
	}
	if name, group, ok := b.Find(secret); name != "laptop" || group != "team" || !ok {
		t.Errorf("%q %q %v", name, group, ok)
	}
	for _, wrong := range []string{"", secret[1:], secret + "x", strings.ToUpper(secret), Prefix} {
		if _, _, ok := b.Find(wrong); ok {
			t.Errorf("%q is let in", wrong)
		}
	}
	want := []Key{{ID: k.ID, Name: "laptop", Group: "team", CreatedAt: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}}
	for _, r := range []*Ring{b.Ring, b.replica()} {
		if diff := cmp.Diff(want, r.List()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	info, err := os.Stat(b.path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if raw, err := os.ReadFile(b.path); err != nil || bytes.Contains(raw, []byte(secret[len(Prefix):])) {
		t.Errorf("%s %v", raw, err)
	}
	if _, err := b.Revoke(k.ID); err != nil || found(b.Ring, secret) != "" || found(b.replica(), secret) != "" {
		t.Errorf("revoked: %v", err)
	}
	// Beside the keys is the lock of those who write, which stays.
	if left, err := os.ReadDir(filepath.Dir(b.path)); err != nil || len(left) != 2 || left[1].Name() != filepath.Base(b.path)+".lock" {
		t.Errorf("files are left: %v %v", left, err)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	k, _ := b.issue("a")
	for name, want := range map[string]error{
		"": ErrName, " a": ErrName, "a ": ErrName, "a\tb": ErrName, "a\x00": ErrName, "a\u0085": ErrName, "\xff": ErrName, "a\u202eb": ErrName,
		strings.Repeat("ä", 65): ErrName, strings.Repeat("ä", 64): nil, "a": ErrTaken, "two words": nil,
	} {
		if _, secret, err := b.Issue(name, ""); !errors.Is(err, want) || (err == nil) != (secret != "") {
			t.Errorf("%q: %v, want %v", name, err, want)
		}
	}
	if _, err := b.Revoke("nope"); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	if _, err := b.Revoke(k.ID); err != nil {
		t.Error(err)
	}
	b.issue("a") // the name is free again
	if err := b.Use(""); err != nil || b.Active() {
		t.Errorf("off: %v", err)
	}
	if _, _, err := b.Issue("x", ""); !errors.Is(err, ErrOff) {
		t.Error(err)
	}
	if n := len(b.List()); n != 0 {
		t.Errorf("off, and %d keys", n)
	}
}

// What another replica or an editor writes counts after a second.
func TestOthersWrite(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	other := b.replica()
	k, secret := b.issue("a")
	if found(other, secret) != "" {
		t.Error("it was looked at twice in a second")
	}
	b.now = b.now.Add(lookEvery)
	if found(other, secret) != "a" {
		t.Error("the key of the other replica is not known")
	}
	if _, err := other.Revoke(k.ID); err != nil {
		t.Fatal(err)
	}
	b.now = b.now.Add(lookEvery)
	if found(b.Ring, secret) != "" {
		t.Error("the other replica has revoked it")
	}
	b.edit(`"revoked": true`, `"revoked": false`)
	b.now = b.now.Add(lookEvery)
	if found(b.Ring, secret) != "a" {
		t.Error("the editor has put it in force again")
	}
	if err := os.Remove(b.path); err != nil {
		t.Fatal(err)
	}
	b.now = b.now.Add(lookEvery)
	if found(b.Ring, secret) != "" {
		t.Error("the file is gone, and its keys are not")
	}
	b.issue("b")
	if n := len(b.replica().List()); n != 1 {
		t.Errorf("%d keys", n)
	}
}

// A file with a mistake leaves the keys as they were, whatever the mistake, and is told once; a ring does not begin with one.
func TestBrokenFile(t *testing.T) {
	t.Parallel()
	const good = `{"keys":[{"id":"k1","name":"a","createdAt":"2030-01-02T03:04:05Z","revoked":false,"sha256":"HASH"}]}`
	for name, change := range map[string][2]string{
		"no JSON":           {"{", "["},
		"empty":             {good, ""},
		"more":              {"]}", "]}{}"},
		"misspelt":          {`"revoked"`, `"revokd"`},
		"no id":             {"k1", ""},
		"no name":           {`"a"`, `""`},
		"a name on 2 lines": {`"a"`, `"a\nb"`},
		"short hash":        {"HASH", "00"},
		"no hash":           {`"HASH"`, `"` + strings.Repeat("0", 64) + `"`},
		"no hexadecimal":    {"HASH", strings.Repeat("x", 64)},
		"the same again":    {"[{", good[9:strings.Index(good, "}]")] + "},{"},
		"too large":         {"]}", "]}" + strings.Repeat(" ", maxFile)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			_, secret := b.issue("a")
			text := strings.ReplaceAll(good, change[0], change[1])
			if text == good {
				t.Fatal("no change")
			}
			if err := os.WriteFile(b.path, []byte(strings.ReplaceAll(text, "HASH", strings.Repeat("ab", 32))), 0o600); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				b.now = b.now.Add(lookEvery)
				if found(b.Ring, secret) != "a" {
					t.Error("the key is gone")
				}
			}
			if n := strings.Count(b.log.String(), "level=ERROR"); n != 1 {
				t.Errorf("told %d times:\n%s", n, &b.log)
			}
			if _, _, err := b.Issue("b", ""); err == nil {
				t.Error("it was written over")
			}
			if r := New(time.Now, slog.New(slog.DiscardHandler)); r.Use(b.path) == nil || r.Active() {
				t.Error("a ring begins with it")
			}
		})
	}
}

func TestUse(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, secret := b.issue("a")
	if err := b.Use(filepath.Join(t.TempDir(), "no", "folder.json")); err == nil {
		t.Error("a file in a folder that is not there")
	}
	if err := b.Use(t.TempDir()); err == nil {
		t.Error("a folder")
	}
	if found(b.Ring, secret) != "a" {
		t.Error("an error changed something")
	}
	if err := b.Use(filepath.Join(t.TempDir(), "new.json")); err != nil || found(b.Ring, secret) != "" || !b.Active() {
		t.Errorf("a new file: %v", err)
	}
}

// A link stays a link, and its file is the one that is written.
func TestLink(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.issue("a")
	link := filepath.Join(t.TempDir(), "link.json")
	if err := os.Symlink(b.path, link); err != nil {
		t.Fatal(err)
	}
	r := New(time.Now, slog.New(slog.DiscardHandler))
	if err := r.Use(link); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Issue("b", ""); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 || len(b.replica().List()) != 2 {
		t.Errorf("%v %v", info, err)
	}
}

// Two replicas that write at the same time lose nothing of each other, and readers never see half a file.
func TestTogether(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	rings := []*Ring{b.Ring, New(time.Now, slog.New(slog.NewTextHandler(&b.log, nil)))}
	if err := rings[1].Use(b.path); err != nil {
		t.Fatal(err)
	}
	const each = 10
	var all sync.WaitGroup
	for i := range each {
		for j, r := range rings {
			all.Go(func() {
				k, _, err := r.Issue(fmt.Sprint(i, j), "")
				if err == nil {
					_, err = r.Revoke(k.ID)
				}
				if err != nil {
					t.Error(err)
				}
			})
			all.Go(func() { r.Find("x"); r.List() })
		}
	}
	all.Wait()
	revoked := 0
	for _, k := range b.replica().List() {
		if k.Revoked {
			revoked++
		}
	}
	if want := each * len(rings); revoked != want {
		t.Errorf("%d keys revoked of %d", revoked, want)
	}
	if b.log.Len() > 0 && strings.Contains(b.log.String(), "ERROR") {
		t.Error(&b.log)
	}
}

// A file that others have written since it was read is not written over.
func TestSaveLooksFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.issue("a")
	before, err := load(b.path)
	if err != nil {
		t.Fatal(err)
	}
	b.issue("b")
	if _, err := save(b.path, before.stamp, before.rows); !errors.Is(err, errChanged) {
		t.Errorf("%v", err)
	}
	if n := len(b.replica().List()); n != 2 {
		t.Errorf("%d keys", n)
	}
}

// Whatever is issued and revoked on whichever replica, exactly what works is let in, and a new ring reads the same.
func TestRing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	rapid.Check(t, func(rt *rapid.T) {
		_ = os.Remove(b.path)
		rings := []*Ring{b.replica(), b.replica()}
		works, ids := map[string]string{}, []string{}
		secrets := map[string]string{}                      // by id
		for range rapid.IntRange(1, 4).Draw(rt, "orders") { // each waits for the disk
			r := rapid.SampledFrom(rings).Draw(rt, "ring")
			if len(ids) > 0 && rapid.Bool().Draw(rt, "revoke") {
				id := rapid.SampledFrom(ids).Draw(rt, "id")
				if _, err := r.Revoke(id); err != nil {
					rt.Fatal(err)
				}
				delete(works, secrets[id])
				continue
			}
			k, secret, err := r.Issue(fmt.Sprint("n", len(ids)), "")
			if err != nil {
				rt.Fatal(err)
			}
			works[secret], secrets[k.ID], ids = k.Name, secret, append(ids, k.ID)
		}
		b.now = b.now.Add(lookEvery)
		for _, r := range append(rings, b.replica()) {
			for _, secret := range secrets {
				if got := found(r, secret); got != works[secret] {
					rt.Fatalf("%q, want %q", got, works[secret])
				}
			}
		}
	})
}

func BenchmarkFind(b *testing.B) {
	n := newBench(b)
	_, secret := n.issue("a")
	b.ReportAllocs()
	for b.Loop() {
		if _, _, ok := n.Find(secret); !ok {
			b.Fatal("not found")
		}
	}
}

func TestFindAllocatesNothing(t *testing.T) {
	b := newBench(t)
	_, secret := b.issue("a")
	if n := testing.AllocsPerRun(100, func() { b.Find(secret) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
