package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Limits of the pool.
const (
	connections = 4               // one writes, the others ask
	spare       = 2               // of them stay open when nobody has use for them
	trusted     = time.Second     // a connection that has done nothing for longer is tried first
	lifetime    = time.Hour       // so that a database that has moved is found again
	closeLimit  = 2 * time.Second // to say goodbye
)

// pool is a few connections to one database. pgx has one, which with its types is twice as large as all that is needed here.
type pool struct {
	cfg   *pgconn.Config
	slots chan struct{} // one is held by whoever has a connection

	mu   sync.Mutex
	idle []connection // the last one was used last
}

// connection is one that nobody uses.
type connection struct {
	*pgconn.PgConn
	made, used time.Time
}

func newPool(cfg *pgconn.Config) *pool {
	return &pool{cfg: cfg, slots: make(chan struct{}, connections)}
}

// use lends a connection to do.
func (p *pool) use(ctx context.Context, do func(c *pgconn.PgConn) error) error {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.slots }()
	c, err := p.take(ctx)
	if err != nil {
		return err
	}
	defer p.put(c)
	return do(c.PgConn)
}

// transaction has do happen as a whole, or not at all.
func (p *pool) transaction(ctx context.Context, do func(c *pgconn.PgConn) error) error {
	return p.use(ctx, func(c *pgconn.PgConn) error {
		if _, err := exec(ctx, c, "BEGIN"); err != nil {
			return err
		}
		if err := do(c); err != nil {
			_, _ = exec(ctx, c, "ROLLBACK") // if that fails, put ends the connection
			return err
		}
		_, err := exec(ctx, c, "COMMIT")
		return err
	})
}

// take returns an idle connection that still lives, or a new one.
func (p *pool) take(ctx context.Context) (connection, error) {
	for {
		c, ok := p.pop()
		if !ok {
			break
		}
		if time.Since(c.used) < trusted || c.Ping(ctx) == nil {
			return c, nil
		}
		end(c)
	}
	c, err := pgconn.ConnectConfig(ctx, p.cfg)
	return connection{PgConn: c, made: time.Now()}, err
}

func (p *pool) pop() (c connection, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle) - 1
	if n < 0 {
		return c, false
	}
	c, p.idle = p.idle[n], p.idle[:n]
	return c, true
}

// put takes a connection back, unless it is broken, in the middle of something, old or one too many.
func (p *pool) put(c connection) {
	c.used = time.Now()
	if c.IsClosed() || c.IsBusy() || c.TxStatus() != 'I' || c.used.Sub(c.made) > lifetime {
		end(c)
		return
	}
	p.mu.Lock()
	keep := len(p.idle) < spare
	if keep {
		p.idle = append(p.idle, c)
	}
	p.mu.Unlock()
	if !keep {
		end(c)
	}
}

// close ends the connections; nobody may use one any more.
func (p *pool) close() {
	for c, ok := p.pop(); ok; c, ok = p.pop() {
		end(c)
	}
}

func end(c connection) {
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	_ = c.Close(ctx)
}
