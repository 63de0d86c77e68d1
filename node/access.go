package node

import (
	"context"
	"fmt"
	"os"

	"github.com/hashicorp/go-hclog"

	"holdfast/auth"
	"holdfast/node/config"
	"holdfast/transport/guard"
)

// access decides who may call this node, and writes down what operators do.
type access struct {
	*guard.Guard
	audit *guard.Audit
	// keeper has the file of tokens and certificates; nil when callers are not authenticated.
	keeper *auth.Keeper
	// file gets the audit's lines; nil: they go to the log.
	file *os.File
}

// openAccess reads the file of tokens and certificates, and opens the audit's.
func openAccess(cfg config.Auth, o Options) (*access, error) {
	a := &access{}
	lines := o.Logger.Named("audit")
	if cfg.AuditFile != "" {
		var err error
		a.file, err = os.OpenFile(cfg.AuditFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return nil, fmt.Errorf("opening audit_file: %w: give it a path that this process may write", err)
		}
		lines = hclog.New(&hclog.LoggerOptions{Name: "audit", Level: hclog.Info, Output: a.file, JSONFormat: true})
	}
	if cfg.On() {
		var err error
		if a.keeper, err = auth.Open(cfg.File, lines); err != nil {
			a.close()
			return nil, fmt.Errorf("reading auth_file: %w", err)
		}
	}
	table := auth.ClientPort()
	a.audit = guard.NewAudit(lines, table)
	a.Guard = guard.New(guard.Config{
		Logger: o.Logger.Named("access"), Mode: cfg.Mode, Book: a.book, Table: table, Audit: a.audit, Clock: o.Clock,
	})
	return a, nil
}

// book returns what the file says now. Nobody asks when callers are not authenticated.
func (a *access) book() *auth.Book { return a.keeper.Book() }

// run reads the file again when it changes, until ctx ends.
func (a *access) run(ctx context.Context) error {
	if a.keeper == nil {
		return nil
	}
	return a.keeper.Run(ctx)
}

// failing reports whether the file could not be used when it was read last.
func (a *access) failing() bool { return a.keeper != nil && a.keeper.Failing() }

// close closes the audit's file.
func (a *access) close() {
	if a.file != nil {
		_ = a.file.Close() // each line was written when its act ended
	}
}
