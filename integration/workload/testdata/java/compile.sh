javac -d classes /workload/java/Work.java
jar --create --file work.jar --main-class Work -C classes .
jar --list --file work.jar | grep -q Work.class
