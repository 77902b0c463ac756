//go:build kernel

package clients

import (
	"io"
	"log"
	"net/http"
	"os"
)

// fetchVerb makes the test binary a Go program in a container, which prints what
// is at a URL.
const fetchVerb = "fetch"

func fetch(url string) {
	log.SetFlags(0)
	res, err := http.Get(url)
	if err != nil {
		log.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(os.Stdout, res.Body); err != nil {
		log.Fatal(err)
	}
}
