cat >pom.xml <<PROJECT
<project>
  <modelVersion>4.0.0</modelVersion>
  <parent><groupId>test.hello</groupId><artifactId>parent</artifactId><version>1.0</version></parent>
  <artifactId>program</artifactId>
  <packaging>pom</packaging>
  <repositories><repository><id>central</id><url>https://$1/maven</url></repository></repositories>
  <dependencyManagement><dependencies><dependency>
    <groupId>test.hello</groupId><artifactId>versions</artifactId><version>1.0</version><type>pom</type><scope>import</scope>
  </dependency></dependencies></dependencyManagement>
</project>
PROJECT
mvn -B -q -Dmaven.repo.local=/tmp/repository validate
ls repository/test/hello/parent/1.0/parent-1.0.pom repository/test/hello/versions/1.0/versions-1.0.pom
