package about

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"holdfast/cmd/internal/arg"
	"holdfast/session"
)

// Command returns the command that shows the build of a program. show writes the build, or its text for people.
func Command(show func(cmd *cobra.Command, b Build, text string) error) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show the version, commit and formats of this program", Args: arg.None,
		Long: `Show the version of this program, the commit and the release of Go that it was built from, and the
number of each format that it reads and writes. It asks no node: "holdfast cluster status" shows the
versions of the nodes.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := Program()
			return show(cmd, b, b.text())
		},
	}
}

// text returns the build for people.
func (b Build) text() string {
	var formats []string
	for _, f := range session.Formats() {
		formats = append(formats, fmt.Sprintf("%s %d", f.Name, f.Number))
	}
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range [][2]string{
		{"version", b.Version},
		{"commit", b.Commit},
		{"go", b.Go + " " + b.Platform},
		{"feature level", strconv.Itoa(b.FeatureLevel)},
		{"formats", strings.Join(formats, ", ")},
	} {
		_, _ = fmt.Fprintf(w, "%s\t%s\n", row[0], row[1]) // writes to a Builder never fail
	}
	_ = w.Flush()
	return strings.TrimSuffix(text.String(), "\n")
}
