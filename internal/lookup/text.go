package lookup

import (
	"fmt"
	"io"
	"strings"
)

// Text writes a report for people. Keys are listed where keys is set.
func (r *Report) Text(w io.Writer, keys bool) error {
	var b strings.Builder
	if r.NotAsked != "" {
		fmt.Fprintf(&b, "the store was not asked: %s\n", r.NotAsked)
	} else {
		fmt.Fprintf(&b, "store      %s\nnamespace  %s\n", r.Store, r.Namespace)
	}
	for _, f := range r.Prompts {
		r.found(&b, f, keys)
	}
	if r.Difference != nil {
		r.difference(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) found(b *strings.Builder, f Found, keys bool) {
	pages := f.Tokens / r.PageTokens
	fmt.Fprintf(b, "\n%s: %s, %s of %d tokens", f.Name, count(f.Tokens, "token"), count(pages, "full page"), r.PageTokens)
	switch {
	case r.NotAsked != "":
		b.WriteByte('\n')
		return
	case pages == 0:
		b.WriteString(": too short to be shared\n")
		return
	}
	fmt.Fprintf(b, "\n  the store has the first %s: a worker can load %d of %d tokens\n", count(f.Run, "page"), f.LoadTokens, f.Tokens)
	for begin := 0; begin < len(f.Pages); {
		end := begin + 1
		for end < len(f.Pages) && f.Pages[end].There == f.Pages[begin].There {
			end++
		}
		word := "missing"
		switch {
		case f.Pages[begin].There && begin == 0:
			word = "there"
		case f.Pages[begin].There:
			word = "there, and of no use without those before"
		}
		pages := fmt.Sprintf("page %d", begin)
		if end > begin+1 {
			pages = fmt.Sprintf("pages %d to %d", begin, end-1)
		}
		fmt.Fprintf(b, "  %s (tokens %d to %d): %s\n", pages, begin*r.PageTokens, end*r.PageTokens-1, word)
		for ; begin < end; begin++ {
			if keys {
				fmt.Fprintf(b, "    %s\n", f.Pages[begin].Key)
			}
		}
	}
}

func (r *Report) difference(b *strings.Builder) {
	d, first, second := r.Difference, r.Prompts[0], r.Prompts[1]
	if d.Same {
		fmt.Fprintf(b, "\n%s and %s are the same %s\n", first.Name, second.Name, count(d.Token, "token"))
		return
	}
	fmt.Fprintf(b, "\n%s and %s differ first at token %d, in page %d: they share %s", first.Name, second.Name, d.Token, d.Page, count(d.Page, "page"))
	if d.Before != nil {
		fmt.Fprintf(b, "\n  after %q", *d.Before)
	}
	for i, f := range r.Prompts {
		switch {
		case d.IDs[i] == nil:
			fmt.Fprintf(b, "\n  %s ends", f.Name)
		case d.Texts[i] != nil:
			fmt.Fprintf(b, "\n  %s has %q (token %d)", f.Name, *d.Texts[i], *d.IDs[i])
		default:
			fmt.Fprintf(b, "\n  %s has token %d", f.Name, *d.IDs[i])
		}
	}
	b.WriteByte('\n')
	if d.IDs[0] != nil && d.IDs[1] != nil {
		fmt.Fprintf(b, "from there on nothing is shared; what changes (a time, a name) is best put after what stays\n")
	}
}

// count is a number of things, in words.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
