java /workload/java/Web.java
