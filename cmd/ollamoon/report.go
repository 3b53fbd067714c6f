package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"ollamoon/internal/report"
	"ollamoon/internal/results"
	"ollamoon/internal/wholefile"
)

func newReportCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "report FILE",
		Short: "Render a results file as a page for a browser",
		Long: "Checks FILE, which a benchmark or a simulation wrote, against its schema and renders\n" +
			"its figures and charts as one HTML page that needs no network.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("name one results FILE, such as demo/bench-results.json")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				out = filepath.Join(filepath.Dir(args[0]), "index.html")
			}
			page, err := renderReport(args[0], out)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), page)
			return err
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "the page to write (default: index.html beside FILE)")
	return cmd
}

// renderReport writes the page for a results file, whole or not at all, and
// returns its absolute path.
func renderReport(file, out string) (string, error) {
	if same(file, out) {
		return "", fmt.Errorf("the page would take the place of the results in %s; name another with --out", file)
	}
	data, err := os.ReadFile(file) //nolint:gosec // the user names the file
	if err != nil {
		return "", fmt.Errorf("reading results: %w", err)
	}
	var page bytes.Buffer
	if err := render(&page, data); err != nil {
		return "", fmt.Errorf("reading %s: %w", file, err)
	}
	if err := wholefile.Write(out, page.Bytes()); err != nil {
		return "", fmt.Errorf("writing the report: %w", err)
	}
	return filepath.Abs(out)
}

// render writes the page for what a results file holds, of the demo or of a
// simulation.
func render(page *bytes.Buffer, data []byte) error {
	switch results.Kind(data) {
	case results.SimulationKind:
		f, err := results.ParseSimulation(data)
		if err != nil {
			return err
		}
		return report.RenderSimulation(page, f)
	case results.ReplayKind:
		return errors.New("a replay has no page; ollamoon simulate replay prints its table, and the file has each request")
	}
	f, err := results.Parse(data)
	if err != nil {
		return err
	}
	return report.Render(page, f)
}

// same reports whether two paths name one file.
func same(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}
