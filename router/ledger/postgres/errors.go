package postgres

import (
	"context"
	"errors"
	"net"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

// refusals are errors that will not go away by themselves, by SQLSTATE (PostgreSQL's appendix A).
var refusals = map[string]string{
	"28000": "the server does not let this user in from here",
	"28P01": "the server knows no such user and password",
	"3D000": "the server has no such database",
	"42501": "the user may not make or read the tables",
	"3F000": "there is no schema to make the tables in",
}

// refused reports whether the database said no, rather than nothing.
func refused(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return refusals[e.Code] != ""
	}
	return errors.Is(err, errVersion)
}

// plain is an error in words that hold nothing of the URL: those of the driver have user, host and database, and for some
// mistakes the whole.
func plain(err error) error {
	if err == nil || errors.Is(err, errVersion) {
		return err
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		if text := refusals[e.Code]; text != "" {
			return errors.New("the database refuses: " + text)
		}
		return errors.New("the database refuses with SQLSTATE " + e.Code)
	}
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return errors.New("the database cannot be reached: " + e.Error())
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return errors.New("the database cannot be reached: its host has no address")
	}
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("the database was not waited for")
	case errors.Is(err, context.DeadlineExceeded) || pgconn.Timeout(err):
		return errors.New("the database does not answer in time")
	}
	return errors.New("the database cannot be reached or has closed the connection")
}
