// Package overhead is the Go side of tests/bench/overhead.py: a webhook that decides nothing, and clients that create pods.
package overhead

import (
	"encoding/json"
	"flag"
	"log"
	"net/http"
	"os"

	admissionv1 "k8s.io/api/admission/v1"
)

// Webhook allows every object as it is: what any webhook costs, whatever it does. With a patch it makes the same change
// to each: what any webhook costs that changes something, however it decides.
func Webhook() {
	address := flag.String("address", "", "host:port to listen on")
	certificate := flag.String("certificate", "", "PEM file")
	key := flag.String("key", "", "PEM file")
	patchFile := flag.String("patch", "", "file with a JSON patch")
	flag.Parse()
	var patch []byte
	if *patchFile != "" {
		var err error
		if patch, err = os.ReadFile(*patchFile); err != nil {
			log.Fatal(err)
		}
	}
	log.Fatal(http.ListenAndServeTLS(*address, *certificate, *key, answers{patch}))
}

type answers struct {
	patch []byte
}

func (a answers) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(request.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(writer, "not an AdmissionReview", http.StatusBadRequest)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	if a.patch != nil {
		patchType := admissionv1.PatchTypeJSONPatch
		review.Response.Patch, review.Response.PatchType = a.patch, &patchType
	}
	review.Request = nil
	writer.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(writer).Encode(review) // the caller gave up
}
