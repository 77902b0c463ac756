package main

import (
	_ "embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// idList is the ids of the catalogue, in its order. The catalogue itself is no
// part of the repository; without it the ids can still be checked.
//
//go:embed ids.txt
var idList string

// row is a line of one of the catalogue's tables: the id, then what must hold.
var row = regexp.MustCompile(`(?m)^\| ([A-Z]-[0-9]+) \| (.*?) \|`)

// requirement is one numbered line of the catalogue.
type requirement struct {
	id, title string
}

func checkedIn() []requirement {
	var all []requirement
	for id := range strings.FieldsSeq(idList) {
		all = append(all, requirement{id: id})
	}
	return all
}

// parse finds the requirements in the text of the catalogue.
func parse(document string) []requirement {
	var all []requirement
	for _, m := range row.FindAllStringSubmatch(document, -1) {
		all = append(all, requirement{m[1], m[2]})
	}
	return all
}

// load reads the catalogue, from the place beside the checkout if none is
// named. A named one must be there; the other need not be, and then the
// requirements come without titles.
func load(root, document string) ([]requirement, error) {
	named := document != ""
	if !named {
		document = filepath.Join(root, "..", "shared", "reference", "requirements.md")
	}
	text, err := os.ReadFile(document)
	switch {
	case err == nil:
		return parse(string(text)), nil
	case !named && errors.Is(err, fs.ErrNotExist):
		return checkedIn(), nil
	}
	return nil, err
}
