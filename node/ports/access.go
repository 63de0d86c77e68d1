package ports

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/hashicorp/go-hclog"

	"holdfast/auth"
	"holdfast/transport/authz"
)

// access decides who may call this node, and writes down what operators do.
type access struct {
	authorizer *authz.Authorizer
	audit      *authz.Audit
	// keeper has the file of tokens and certificates; nil when callers are not authenticated.
	keeper *auth.Keeper
	// file gets the audit's lines; nil: they go to the log.
	file *os.File
}

// openAccess reads the file of tokens and certificates, and opens the audit's.
func openAccess(c *Config) (*access, error) {
	a, cfg := &access{}, c.Settings.Auth
	lines := cmp.Or(c.Audit, c.Logger).Named("audit")
	if cfg.AuditFile != "" {
		var err error
		a.file, err = os.OpenFile(cfg.AuditFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return nil, fmt.Errorf("opening audit_file: %w: give it a path that this process may write", err)
		}
		to := &auditFile{file: a.file, log: lines}
		lines = hclog.New(&hclog.LoggerOptions{Name: "audit", Level: hclog.Info, Output: to, JSONFormat: true})
	}
	if cfg.On() {
		var err error
		if a.keeper, err = auth.Open(cfg.File, lines); err != nil {
			a.close()
			return nil, fmt.Errorf("reading auth_file: %w", err)
		}
	}
	table := auth.ClientPort()
	a.audit = authz.NewAudit(lines, table)
	a.authorizer = authz.New(authz.Config{
		Logger: c.Logger.Named("access"), Mode: cfg.Mode, Book: a.book, Table: table, Audit: a.audit, Clock: c.Clock,
	})
	return a, nil
}

// auditFile writes the audit's lines into a file. A line that cannot be written, as on a full disk, goes to the log:
// no other record of the action exists. Its logger has one goroutine write at a time.
type auditFile struct {
	file io.Writer
	log  hclog.Logger
	// torn says that a part of a line was written last.
	torn bool
}

// Write writes one line.
func (f *auditFile) Write(line []byte) (int, error) {
	if f.torn { // the next line must not be a part of this one
		if _, err := f.file.Write([]byte("\n")); err == nil {
			f.torn = false
		}
	}
	n, err := f.file.Write(line)
	if err != nil {
		f.torn = f.torn || n > 0
		f.log.Error("a line was not written to audit_file: make room for it", "line", strings.TrimSpace(string(line)),
			"error", err)
	}
	return n, err
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
