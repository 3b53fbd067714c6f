package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"ollamoon/internal/report"
	"ollamoon/internal/results"
)

func newReportCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "report FILE",
		Short: "Render a results file as a page for a browser",
		Long: "Checks FILE, which a benchmark wrote, against the results schema and renders\n" +
			"its figures and charts as one HTML page that needs no network.",
		Args: cobra.ExactArgs(1),
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
	data, err := os.ReadFile(file) //nolint:gosec // the user names the file
	if err != nil {
		return "", fmt.Errorf("reading results: %w", err)
	}
	f, err := results.Parse(data)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", file, err)
	}
	var page bytes.Buffer
	if err := report.Render(&page, f); err != nil {
		return "", err
	}
	temp := out + ".part"
	if err := os.WriteFile(temp, page.Bytes(), 0o644); err != nil { //nolint:gosec // a page to be published
		return "", fmt.Errorf("writing the report: %w", err)
	}
	if err := os.Rename(temp, out); err != nil {
		return "", fmt.Errorf("writing the report: %w", err)
	}
	return filepath.Abs(out)
}
