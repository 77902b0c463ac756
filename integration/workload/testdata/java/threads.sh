[ "$(java /workload/java/Work.java)" = '1000 499999500000 child' ]
