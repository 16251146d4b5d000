package ledgertest

import (
	"bytes"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// PostgresBin names the variable that holds the folder of PostgreSQL's programs; `make postgres` sets it.
const PostgresBin = "SIGNALBOX_POSTGRES_BIN"

// Postgres starts a server for this test alone, on a socket in a folder of its own, and returns the URL of its database and
// a function that stops the server at once, as a crash would, and one that starts it again. Without PostgreSQL's programs
// the test is skipped.
func Postgres(t *testing.T) (url string, stop, start func()) {
	t.Helper()
	bin := os.Getenv(PostgresBin)
	if bin == "" {
		t.Skip("without PostgreSQL; `make postgres` runs this")
	}
	dir, err := os.MkdirTemp("", "sbpg") //nolint:usetesting // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	p := &server{t: t, bin: bin, dir: dir, as: owner(t, dir)}
	p.run("initdb", "-D", filepath.Join(dir, "data"), "-U", "signalbox", "-A", "trust", "-E", "UTF8", "--no-sync")
	p.start()
	t.Cleanup(p.stop)
	return "postgres://signalbox@/postgres?host=" + dir, p.stop, p.start
}

// owner is whom the server runs as: it refuses to be root.
func owner(t *testing.T, dir string) *syscall.SysProcAttr {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	who, err := user.Lookup("postgres")
	if err != nil {
		t.Fatal(err)
	}
	uid, err := strconv.Atoi(who.Uid)
	if err != nil {
		t.Fatal(err)
	}
	gid, err := strconv.Atoi(who.Gid)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}

// server is a PostgreSQL server in a folder.
type server struct {
	t        *testing.T
	bin, dir string
	as       *syscall.SysProcAttr
	cmd      *exec.Cmd
}

func (p *server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(p.bin, name), args...)
	cmd.Dir, cmd.SysProcAttr, cmd.Env = p.dir, p.as, []string{"LC_ALL=C.UTF-8", "PATH=" + os.Getenv("PATH")}
	return cmd
}

func (p *server) run(name string, args ...string) {
	p.t.Helper()
	if out, err := p.command(name, args...).CombinedOutput(); err != nil {
		p.t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// start starts the server and waits until it takes connections.
func (p *server) start() {
	p.t.Helper()
	var said bytes.Buffer
	p.cmd = p.command("postgres", "-D", filepath.Join(p.dir, "data"), "-k", p.dir, "-c", "listen_addresses=", "-c", "fsync=off")
	p.cmd.Stdout, p.cmd.Stderr = &said, &said
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	tick, late := time.NewTicker(20*time.Millisecond), time.After(2*time.Minute)
	defer tick.Stop()
	for {
		if p.command("pg_isready", "-q", "-h", p.dir).Run() == nil {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			p.stop()
			p.t.Fatalf("PostgreSQL does not start:\n%s", said.String())
		}
	}
}

// stop ends the server at once; it may be stopped already.
func (p *server) stop() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGQUIT) // immediate shutdown
	_ = p.cmd.Wait()
	p.cmd = nil
}
