// Package report renders a results file (package internal/results) as one page
// of HTML that a browser opens without a network.
//
// Every figure on the page comes from the file: templates name a figure by its
// place in the JSON, or by quotients, products and differences of such places
// (see eval), and never hold a number of their own. Each stands in an element
//
//	<data data-figure="transfer.tcp.reload_ms.p50" value="22.841" data-scale="1">22.8</data>
//
// with the place, the exact value, and what one of the shown number is in the
// file's unit, so that a reader, or a test, can set it beside the file. A speed
// or time of 0 is shown as not measured. Units are SI: a MB is 10^6 bytes.
//
// The page has no script and asks for nothing; its content security policy
// forbids both. It follows the reader's colour scheme. Charts are boxes of HTML
// whose lengths are custom properties, not images: a chart library's SVG (tried
// with go-analyze/charts) has its colours written into every element, so it
// cannot follow the scheme, its text shrinks with the drawing, and its numbers
// cannot be marked. Each chart has a caption and its data as a table.
//
// Render fails when a template names a place that the file does not have, and
// for nothing else but a failing writer.
package report
