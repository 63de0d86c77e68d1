package secure

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
)

// StoreConfig configures a [Store].
type StoreConfig struct {
	Files Files
	// Check refuses material that cannot work; nil takes all that can be read. It is called with the time as of which it
	// checks.
	Check func(m *Material, now time.Time) error
	// Every is how long changed files take to be loaded, at most; default 10 s. Run looks twice in that time.
	Every time.Duration
	// Clock is the wall clock; nil is time.Now.
	Clock func() time.Time
	// Logger may be nil.
	Logger hclog.Logger
}

const (
	defaultEvery = 10 * time.Second
	// againEvery is how often a warning about a certificate's end is repeated.
	againEvery = 24 * time.Hour
	// aheadMost bounds how long before its end a certificate is warned about; one of a short life is warned about in its
	// last third.
	aheadMost = 30 * 24 * time.Hour
)

// Store keeps the material of one process, and loads it anew when its files change: all of it, or nothing. It knows the
// connections that were made with it, and closes those whose certificates it does not accept after a reload. Safe for
// concurrent use.
type Store struct {
	cfg     StoreConfig
	current atomic.Pointer[Material]

	reloads, failures, closed atomic.Uint64

	mu sync.Mutex
	// loaded is what current was made of, refused what could not be loaded last, and seen what the last look of Run has
	// found. guarded by mu
	loaded, refused, seen contents
	// complaint is why the files could not be loaded at the last look; empty: they could. guarded by mu
	complaint string
	looked    time.Time // guarded by mu
	warned    time.Time // guarded by mu
	// live are the connections with a verified certificate of the other side. guarded by mu
	live map[*Conn]struct{}
}

// Stats are gauges and counters of a store.
type Stats struct {
	// Reloads counts reloads, Failures files that were refused, Closed connections that a reload ended.
	Reloads, Failures, Closed uint64
	// Expires is when the own certificate ends, CAExpires when the first CA does. Zero: there is none.
	Expires, CAExpires time.Time
}

// Open loads the files. Its error names the file.
func Open(cfg StoreConfig) (*Store, error) {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Every <= 0 {
		cfg.Every = defaultEvery
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	s := &Store{cfg: cfg, live: map[*Conn]struct{}{}}
	read, err := cfg.Files.read()
	if err != nil {
		return nil, err
	}
	m, err := s.parse(read)
	if err != nil {
		return nil, err
	}
	s.loaded, s.looked = read, cfg.Clock()
	s.current.Store(m)
	return s, nil
}

func (s *Store) parse(read contents) (*Material, error) {
	m, err := s.cfg.Files.parse(read)
	if err != nil {
		return nil, err
	}
	if s.cfg.Check != nil {
		err = s.cfg.Check(m, s.cfg.Clock())
	}
	return m, err
}

// Current returns the newest material.
func (s *Store) Current() *Material { return s.current.Load() }

// Run looks at the files from time to time, until ctx ends, and says ahead of time when certificates end.
func (s *Store) Run(ctx context.Context) error {
	ticker := time.NewTicker(max(s.cfg.Every/2, 1))
	defer ticker.Stop()
	for {
		s.warn()
		select {
		case <-ticker.C:
			s.look()
		case <-ctx.Done():
			return nil
		}
	}
}

// look is Reload, once two looks in a row have found the same in the files: a bundle that is written one certificate
// after the other can be read after each, and the CAs that are not there yet would lose their connections.
func (s *Store) look() {
	read, err := s.cfg.Files.read()
	s.mu.Lock()
	steady := err != nil || read.equal(s.loaded) || read.equal(s.seen)
	s.seen = read
	s.mu.Unlock()
	if steady {
		s.take(read, err)
	}
}

// refreshEvery is how often Refresh reads the files at most.
const refreshEvery = time.Second

// Refresh is Reload, if the last look is long enough ago. It is for processes that do not Run.
func (s *Store) Refresh() {
	s.mu.Lock()
	now := s.cfg.Clock()
	if age := now.Sub(s.looked); age >= 0 && age < refreshEvery {
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	s.Reload()
}

// Reload loads the files if they have changed. Files that cannot be used are logged once, and the former material stays
// until they can: a certificate that is replaced before its key is used together with it. Each look tries them again,
// because Check may take later what it refuses now: a certificate whose time begins in a minute. Reload closes
// connections whose certificates are no longer accepted.
func (s *Store) Reload() { s.take(s.cfg.Files.read()) }

// take loads what was read, or notes why that cannot be.
func (s *Store) take(read contents, err error) {
	now := s.cfg.Clock()
	s.mu.Lock()
	s.looked = now
	same := err == nil && read.equal(s.loaded)
	if same {
		s.complaint = ""
	}
	s.mu.Unlock()
	if same {
		return
	}
	var m *Material
	if err == nil {
		m, err = s.parse(read)
	}
	if err != nil {
		s.refuse(read, err)
		return
	}
	s.mu.Lock()
	s.loaded, s.complaint, s.warned = read, "", time.Time{}
	s.mu.Unlock()
	s.current.Store(m)
	s.reloads.Add(1)
	closed := s.recheck(m, now)
	s.cfg.Logger.Info("certificates loaded anew", "certificate", describe(m.leaf()), "cas", len(m.roots),
		"connections_closed", closed)
}

// refuse notes files that cannot be used; read is empty when they could not be read. It logs each reason, and the same
// files, once: the text of a reason may have the time in it.
func (s *Store) refuse(read contents, why error) {
	s.mu.Lock()
	again := s.complaint == why.Error() ||
		s.complaint != "" && read.equal(s.refused) && !read.equal(contents{})
	s.refused, s.complaint = read, why.Error()
	s.mu.Unlock()
	if again {
		return
	}
	s.failures.Add(1)
	s.cfg.Logger.Error("certificates not loaded anew: the former ones stay in use", "error", why)
}

// recheck closes the connections whose certificates m does not accept. It returns how many.
func (s *Store) recheck(m *Material, now time.Time) (closed int) {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.live))
	s.mu.Unlock()
	for _, c := range all {
		if err := c.accepted(m, now); err != nil {
			closed++
			s.closed.Add(1)
			s.cfg.Logger.Warn("connection closed: its certificate is no longer accepted", "remote",
				c.RemoteAddr().String(), "error", err)
			c.cut()
		}
	}
	return closed
}

// add notes a connection with a verified certificate. The material that verified it may have been replaced meanwhile:
// then add judges it again.
func (s *Store) add(c *Conn, by *Material) error {
	s.mu.Lock()
	s.live[c] = struct{}{}
	s.mu.Unlock()
	if now := s.current.Load(); now != by {
		return c.accepted(now, s.cfg.Clock())
	}
	return nil
}

func (s *Store) remove(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, c)
}

// mostWarnings bounds the certificates that one look warns about: the own one comes first.
const mostWarnings = 10

// warn says once a day which certificates end soon, or have ended. Each has a line: a former CA that is still in its
// file must not hide the end of the own certificate.
func (s *Store) warn() {
	m, now := s.Current(), s.cfg.Clock()
	var ending []*x509.Certificate
	for _, c := range slices.Concat([]*x509.Certificate{m.leaf()}, m.roots, m.clientRoots) {
		if c == nil || slices.ContainsFunc(ending, c.Equal) {
			continue
		}
		if c.NotAfter.Sub(now) < min(aheadMost, c.NotAfter.Sub(c.NotBefore)/3) {
			ending = append(ending, c)
		}
	}
	s.mu.Lock()
	due := len(ending) > 0 && (s.warned.IsZero() || now.Sub(s.warned) >= againEvery)
	if due {
		s.warned = now
	}
	s.mu.Unlock()
	if !due {
		return
	}
	for _, c := range ending[:min(len(ending), mostWarnings)] {
		if ends := c.NotAfter.UTC().Format(time.RFC3339); now.After(c.NotAfter) {
			s.cfg.Logger.Error("a certificate has expired: new connections with it are refused; renew it",
				"certificate", describe(c), "expired", ends)
		} else {
			s.cfg.Logger.Warn("a certificate expires soon: renew it", "certificate", describe(c), "expires", ends)
		}
	}
}

// Stats returns the gauges and counters of now.
func (s *Store) Stats() Stats {
	m := s.Current()
	st := Stats{Reloads: s.reloads.Load(), Failures: s.failures.Load(), Closed: s.closed.Load()}
	st.Expires = expires(m.leaf())
	st.CAExpires = expires(slices.Concat(m.roots, m.clientRoots)...)
	return st
}

// Complaint returns why the files on disk are not those in use, nil when they are.
func (s *Store) Complaint() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.complaint == "" {
		return nil
	}
	return errors.New(s.complaint)
}

// describe says whose a certificate is, and until when; empty for nil.
func describe(c *x509.Certificate) string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s, until %s", owner(c), c.NotAfter.UTC().Format(time.RFC3339))
}
