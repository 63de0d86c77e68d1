package auth

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/internal/arg"
	"holdfast/transport/secure"
	"holdfast/transport/secure/issue"
)

const certHelp = `Make certificates for tests and small sites, and show them.

The private key of the CA stays in the directory, unencrypted: anyone who can read it can act as any
node. A site with its own CA uses that instead. A node's certificate then has one URI,
holdfast://CLUSTER_ID/node/NUMBER, and the hosts at which clients reach the node as alternative
names, and is valid for servers and for clients.`

const certExample = `  holdfast cert ca --dir certs
  holdfast cert node 1 --dir certs --host n1.example.com,10.0.0.1
  holdfast cert client web --dir certs
  holdfast cert show certs/node-1.pem`

// Names of the files of a CA.
const (
	caFile = "ca.pem"
	caKey  = "ca.key"
)

// Lifetimes in days.
const (
	caDays   = 3650
	certDays = 365
)

// dirFlags are the flags of all commands that make certificates.
type dirFlags struct {
	dir  string
	days int
}

func (f *dirFlags) register(cmd *cobra.Command, days int) {
	cmd.Flags().StringVar(&f.dir, "dir", ".", "directory of the CA and of its certificates, made if missing")
	cmd.Flags().Var(arg.Whole(&f.days, days, 1, 36500), "days", "lifetime of the certificate")
}

// lifetime returns a validity of the given number of days. It starts an hour ago, for clocks that are behind.
func lifetime(days int) issue.Span {
	now := time.Now().UTC().Truncate(time.Second)
	return issue.Span{From: now.Add(-time.Hour), To: now.AddDate(0, 0, days)}
}

// caFlags are the flags of "cert ca".
type caFlags struct {
	dirFlags

	name string
}

func newCA(env *cli.Env) *cobra.Command {
	var f caFlags
	cmd := &cobra.Command{
		Use: "ca", Short: "Make a CA: " + caFile + " and " + caKey, Args: arg.None,
		RunE: cli.Run(env, &f, runCA),
	}
	cmd.Flags().StringVar(&f.name, "name", "Holdfast CA", "common name of the CA")
	f.register(cmd, caDays)
	return cmd
}

func runCA(_ context.Context, env *cli.Env, f *caFlags, _ []string) error {
	ca, err := issue.NewCA(f.name, lifetime(f.days))
	if err != nil {
		return err
	}
	return writePair(env, f.dir, ca, caFile, caKey)
}

// certFlags are the flags of "cert client" and "cert admin".
type certFlags struct {
	dirFlags

	cluster string
}

func (f *certFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.cluster, "cluster-id", "holdfast",
		"cluster_id of the nodes; nodes of other clusters refuse the certificate")
	f.dirFlags.register(cmd, certDays)
}

// nodeFlags are the flags of "cert node".
type nodeFlags struct {
	certFlags

	hosts []string
}

func newNode(env *cli.Env) *cobra.Command {
	var f nodeFlags
	cmd := &cobra.Command{
		Use: "node NUMBER", Short: "Make the certificate of a node: node-NUMBER.pem and node-NUMBER.key",
		Args: cobra.ExactArgs(1),
		RunE: cli.Run(env, &f, runNode),
	}
	cmd.Flags().StringSliceVar(&f.hosts, "host", nil,
		"names and IP addresses at which clients reach the node, separated by commas, besides loopback")
	f.register(cmd)
	return cmd
}

func runNode(_ context.Context, env *cli.Env, f *nodeFlags, args []string) error {
	for _, host := range f.hosts {
		if err := issue.CheckHost(host); err != nil {
			return cli.Usage("--host %q: %w", host, err)
		}
	}
	hosts := append([]string{"localhost", "127.0.0.1", "::1"}, f.hosts...)
	return f.issue(env, secure.Name{Cluster: f.cluster, Kind: secure.KindNode, Name: args[0]}, hosts)
}

func newClient(env *cli.Env) *cobra.Command {
	var f certFlags
	cmd := &cobra.Command{
		Use: "client NAME", Short: "Make the certificate of a client: client-NAME.pem and client-NAME.key",
		Args: cobra.ExactArgs(1),
		RunE: cli.Run(env, &f, runClient),
	}
	f.register(cmd)
	return cmd
}

func runClient(_ context.Context, env *cli.Env, f *certFlags, args []string) error {
	return f.issue(env, secure.Name{Cluster: f.cluster, Kind: secure.KindClient, Name: args[0]}, nil)
}

func newAdmin(env *cli.Env) *cobra.Command {
	var f certFlags
	cmd := &cobra.Command{
		Use: "admin NAME", Short: "Make the certificate of an administrator: admin-NAME.pem and admin-NAME.key",
		Args: cobra.ExactArgs(1),
		RunE: cli.Run(env, &f, runAdmin),
	}
	f.register(cmd)
	return cmd
}

func runAdmin(_ context.Context, env *cli.Env, f *certFlags, args []string) error {
	return f.issue(env, secure.Name{Cluster: f.cluster, Kind: secure.KindAdmin, Name: args[0]}, nil)
}

// issue signs a certificate with the CA of the directory.
func (f *certFlags) issue(env *cli.Env, name secure.Name, hosts []string) error {
	if err := name.Check(); err != nil {
		return cli.Usage("%w", err)
	}
	var pair [2][]byte
	for i, file := range []string{caFile, caKey} {
		var err error
		if pair[i], err = os.ReadFile(filepath.Join(f.dir, file)); err != nil {
			return fmt.Errorf("reading the CA, which \"holdfast cert ca --dir %s\" makes: %w", f.dir, err)
		}
	}
	ca, err := issue.ReadCA(pair[0], pair[1])
	if err != nil {
		return fmt.Errorf("reading the CA in %s: %w", f.dir, err)
	}
	made, err := ca.Issue(name, hosts, lifetime(f.days))
	if err != nil {
		return err
	}
	stem := string(name.Kind) + "-" + name.Name
	return writePair(env, f.dir, made, stem+".pem", stem+".key")
}

// writePair writes a certificate and its key in a directory, and replaces no file.
func writePair(env *cli.Env, dir string, made *issue.Issued, certificate, key string) error {
	private, err := made.KeyPEM()
	if err != nil {
		return err
	}
	if err = os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	files := []struct {
		path string
		data []byte
		mode fs.FileMode
	}{
		{filepath.Join(dir, key), private, 0o600},
		{filepath.Join(dir, certificate), made.CertificatePEM(), 0o644},
	}
	for _, f := range files {
		if _, err = os.Lstat(f.path); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(fmt.Errorf("%s exists and is not replaced: move both files away, or pass another "+
				"--dir", f.path), err)
		}
	}
	for _, f := range files {
		if err = writeNew(f.path, f.data, f.mode); err != nil {
			return err
		}
	}
	view := issuedViewOf(made.Certificate)
	view.Certificate, view.Key = files[1].path, files[0].path
	return env.Out.Print(view, func() string {
		return fmt.Sprintf("%s\n%s\n%s\n  private key, readable for its owner only\n", view.Certificate,
			secure.Describe(made.Certificate), view.Key)
	})
}

// issuedView is a certificate in JSON.
type issuedView struct {
	Certificate string    `json:"certificate,omitempty"`
	Key         string    `json:"key,omitempty"`
	Subject     string    `json:"subject"`
	Issuer      string    `json:"issuer"`
	URIs        []string  `json:"uris,omitempty"`
	Hosts       []string  `json:"hosts,omitempty"`
	NotBefore   time.Time `json:"not_before"`
	NotAfter    time.Time `json:"not_after"`
}

func issuedViewOf(c *x509.Certificate) issuedView {
	v := issuedView{
		Subject: secure.SubjectOf(c), Issuer: c.Issuer.String(), Hosts: c.DNSNames,
		NotBefore: c.NotBefore, NotAfter: c.NotAfter,
	}
	for _, ip := range c.IPAddresses {
		v.Hosts = append(v.Hosts, ip.String())
	}
	for _, u := range c.URIs {
		v.URIs = append(v.URIs, u.String())
	}
	return v
}

// writeNew writes a file that must not exist.
func writeNew(path string, data []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

func newShowCert(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "show FILE", Short: "Show the certificates in a PEM file: subject, issuer and validity",
		Args: cobra.ExactArgs(1),
		RunE: cli.Run(env, &cli.NoFlags{}, runShowCert),
	}
}

func runShowCert(_ context.Context, env *cli.Env, _ *cli.NoFlags, args []string) error {
	b, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	all, err := secure.Certificates(b)
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	if len(all) == 0 {
		return fmt.Errorf("%s has no certificate in PEM form", args[0])
	}
	var views []issuedView
	var text strings.Builder
	for i, one := range all {
		views = append(views, issuedViewOf(one))
		fmt.Fprintf(&text, "certificate %d of %d\n%s\n", i+1, len(all),
			cli.EscapeLines(strings.Split(secure.Describe(one), "\n")))
	}
	return env.Out.Print(views, text.String)
}
