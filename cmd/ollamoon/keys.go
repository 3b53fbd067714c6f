package main

import (
	"bufio"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"ollamoon/prefix"
)

func newKeysCommand() *cobra.Command {
	var config prefix.Config
	cmd := &cobra.Command{
		Use:   "keys --model M --page-tokens N",
		Short: "Print the store keys of a prompt's pages",
		Long: "Reads token ids from standard input, with blanks, commas or newlines between\n" +
			"them, and prints the key of each full page, one a line. A last page that is not\n" +
			"full has no key; where no page is full, standard error says so.",
		Example: "  echo 1 2 3 4 5 6 7 8 | ollamoon keys --model llama3.2:3b --page-tokens 4",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			tokens, err := readTokens(cmd.InOrStdin())
			if err != nil {
				return err
			}
			pages, err := config.Pages(tokens)
			if err != nil {
				return err
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			for _, p := range pages {
				fmt.Fprintln(out, p.Key)
			}
			if err := out.Flush(); err != nil {
				return err
			}
			if len(pages) == 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "ollamoon: no keys: %d tokens fill no page of %d\n", len(tokens), config.PageTokens)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&config.Model, "model", "", "model or namespace that the keys start from (required)")
	flags.IntVar(&config.PageTokens, "page-tokens", 0, "tokens a page (required)")
	flags.StringVar(&config.KeyPrefix, "key-prefix", prefix.DefaultKeyPrefix, "what each key starts with")
	required(cmd, "model", "llama3.2:3b", "page-tokens", "256")
	return cmd
}

// readTokens reads 32-bit token ids between blanks, commas and newlines. An
// error names the place of what is not an id: its line and column, in bytes
// from 1, and its number among the ids, from 1.
func readTokens(r io.Reader) ([]int32, error) {
	in := bufio.NewReader(r)
	var tokens []int32
	var word []byte
	line, column, start := 1, 0, 0
	finish := func() error {
		if len(word) == 0 {
			return nil
		}
		id, err := strconv.ParseInt(string(word), 10, 32)
		if err != nil || len(word) > maxTokenWord {
			return fmt.Errorf("line %d, column %d: token %d: %q is not a 32-bit token id", line, start, len(tokens)+1, word)
		}
		tokens = append(tokens, int32(id))
		word = word[:0]
		return nil
	}
	for {
		b, err := in.ReadByte()
		if err == io.EOF {
			return tokens, finish()
		}
		if err != nil {
			return nil, fmt.Errorf("reading token ids: %w", err)
		}
		column++
		switch b {
		case ' ', '\t', '\r', '\n', ',':
			if err := finish(); err != nil {
				return nil, err
			}
			if b == '\n' {
				line, column = line+1, 0
			}
		default:
			if len(word) == 0 {
				start = column
			}
			if word = append(word, b); len(word) > maxTokenWord {
				return nil, finish()
			}
		}
	}
}

// maxTokenWord is longer than any 32-bit number, and bounds what is kept of a
// word that is none.
const maxTokenWord = 32
